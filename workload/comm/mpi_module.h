#pragma once

#include <cstddef>
#include <cstdint>

/// What stoker-bench knows of MPI: a table of plain C functions, so that the program itself needs no MPI. A
/// module, stoker_mpi_NAME.so, exists for each MPI implementation that was there at build time; it is loaded
/// only by a process that such a launcher started. Unless said otherwise functions return 0, or -1 and leave
/// a sentence in last_error(). One caller at a time (MPI_THREAD_SERIALIZED).
extern "C" {

inline constexpr uint32_t kStokerMpiAbi = 1;

struct StokerMpi {
  uint32_t abi;      // kStokerMpiAbi, or it is another program's
  const char* name;  // "MPICH", "Open MPI"

  const char* (*last_error)();
  int (*init)();             // may wait for the other processes
  const char* (*library)();  // version, one line; after init
  void* (*world)();          // the group of all processes; after init
  uint64_t (*rank)(void* group);
  uint64_t (*size)(void* group);
  void* (*split)(void* group, uint64_t number);  // waits for all; nullptr on error
  int (*leave)(void* group);                     // a group that split() made; collective
  int (*finalize)();                             // collective
  void (*abort)(int exit_status);

  // Requests are done, and gone, when test() says so; the bytes must stay until then. nullptr on error.
  void* (*send)(void* group, uint64_t to, const void* bytes, size_t size);
  void* (*barrier)(void* group);
  /// 1: a message is here, with its sender, its size and the handle for receive(). 0: none.
  int (*probe)(void* group, uint64_t* from, size_t* size, void** message);
  void* (*receive)(void* message, void* into, size_t size);
  /// 1 done, 0 not yet.
  int (*test)(void* request);
};

/// The only symbol of a module.
__attribute__((visibility("default"))) const StokerMpi* StokerMpiTable();

}  // extern "C"
