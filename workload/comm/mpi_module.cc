// One MPI implementation behind StokerMpi. Compiled once per implementation, against its own mpi.h, which is
// included nowhere else.
#include "workload/comm/mpi_module.h"

// The C++ bindings that MPI-3 removed would bring symbols of a second library.
#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <climits>
#include <string>

namespace {

constexpr int kTag = 1;

std::string& Error() {
  static std::string text;
  return text;
}
std::string& LibraryText() {
  static std::string text;
  return text;
}

/// 0, or -1 with the library's own words kept.
int Check(int code, const char* call) {
  if (code == MPI_SUCCESS) return 0;
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  Error() = std::string(call) + ": " + std::string(text, static_cast<size_t>(length));
  return -1;
}

/// Groups and requests are handed out as pointers: handles are integers in one implementation and pointers in
/// the other.
struct Group {
  MPI_Comm comm = MPI_COMM_NULL;
};
struct Pending {
  MPI_Request request = MPI_REQUEST_NULL;
};
struct Found {
  MPI_Message message = MPI_MESSAGE_NULL;
};

MPI_Comm CommOf(void* group) {
  return static_cast<Group*>(group)->comm;
}

const char* LastError() {
  return Error().c_str();
}

int Init() {
  int level = MPI_THREAD_SINGLE;
  if (Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread") != 0)
    return -1;
  if (level < MPI_THREAD_SERIALIZED) {
    Error() = "the MPI library allows no calls from several threads (MPI_THREAD_SERIALIZED)";
    return -1;
  }
  char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
  int length = 0;
  if (MPI_Get_library_version(text, &length) == MPI_SUCCESS) {
    // One makes a table of it, its first row "MPICH Version:\t4.0.2"; the other a list, "Open MPI v4.1.4, …".
    const std::string whole(text, static_cast<size_t>(length));
    const std::string first = whole.substr(0, whole.find_first_of("\n,"));
    const size_t tab = first.find('\t');
    LibraryText() =
        tab == std::string::npos ? first : STOKER_MPI_NAME " " + first.substr(first.find_last_of('\t') + 1);
  }
  return Check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

const char* Library() {
  return LibraryText().c_str();
}

void* World() {
  static Group world;
  world.comm = MPI_COMM_WORLD;
  return &world;
}

uint64_t Rank(void* group) {
  int rank = 0;
  static_cast<void>(MPI_Comm_rank(CommOf(group), &rank));  // fails only for what is no communicator
  return static_cast<uint64_t>(rank);
}

uint64_t Size(void* group) {
  int size = 1;
  static_cast<void>(MPI_Comm_size(CommOf(group), &size));
  return static_cast<uint64_t>(size);
}

void* Split(void* group, uint64_t number) {
  auto* part = new Group;
  if (Check(
          MPI_Comm_split(CommOf(group), static_cast<int>(number), static_cast<int>(Rank(group)), &part->comm),
          "MPI_Comm_split") == 0) {
    return part;  // keeps the error handler of its parent
  }
  delete part;
  return nullptr;
}

int Leave(void* group) {
  auto* part = static_cast<Group*>(group);
  const int code = Check(MPI_Comm_free(&part->comm), "MPI_Comm_free");
  delete part;
  return code;
}

int Finalize() {
  return Check(MPI_Finalize(), "MPI_Finalize");
}

void Abort(int exit_status) {
  static_cast<void>(MPI_Abort(MPI_COMM_WORLD, exit_status));
}

void* Kept(MPI_Request request, int code, const char* call) {
  if (Check(code, call) != 0) return nullptr;
  return new Pending{request};
}

void* Send(void* group, uint64_t to, const void* bytes, size_t size) {
  if (size > INT_MAX) {
    Error() = "a message of more than 2 GiB";
    return nullptr;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(bytes, static_cast<int>(size), MPI_BYTE, static_cast<int>(to), kTag, CommOf(group), &request);
  return Kept(request, code, "MPI_Isend");
}

void* Barrier(void* group) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Ibarrier(CommOf(group), &request);
  return Kept(request, code, "MPI_Ibarrier");
}

int Probe(void* group, uint64_t* from, size_t* size, void** message) {
  int found = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status status;
  if (Check(MPI_Improbe(MPI_ANY_SOURCE, kTag, CommOf(group), &found, &handle, &status), "MPI_Improbe") != 0) {
    return -1;
  }
  if (found == 0) return 0;
  int bytes = 0;
  if (Check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count") != 0) return -1;
  *from = static_cast<uint64_t>(status.MPI_SOURCE);
  *size = static_cast<size_t>(bytes);
  *message = new Found{handle};
  return 1;
}

void* Receive(void* message, void* into, size_t size) {
  auto* found = static_cast<Found*>(message);
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = MPI_Imrecv(into, static_cast<int>(size), MPI_BYTE, &found->message, &request);
  delete found;
  return Kept(request, code, "MPI_Imrecv");
}

int Test(void* request) {
  auto* pending = static_cast<Pending*>(request);
  int done = 0;
  const int code = Check(MPI_Test(&pending->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (code != 0 || done != 0) delete pending;
  return code != 0 ? -1 : done != 0 ? 1 : 0;
}

constexpr StokerMpi kTable = {kStokerMpiAbi, STOKER_MPI_NAME, LastError, Init,     Library, World, Rank,
                              Size,          Split,           Leave,     Finalize, Abort,   Send,  Barrier,
                              Probe,         Receive,         Test};

}  // namespace

extern "C" const StokerMpi* StokerMpiTable() {
  return &kTable;
}
