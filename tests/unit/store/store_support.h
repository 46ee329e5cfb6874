#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/base/checksum.h"
#include "cache/base/clock.h"
#include "cache/base/metrics.h"
#include "cache/base/random.h"
#include "cache/store/object_store.h"

namespace stoker::testing {

inline std::vector<std::byte> RandomBytes(Random& random, size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  return bytes;
}

inline FileVersion Version(const std::string& name, uint64_t size) {
  return {size, "test:" + name};
}

/// Bytes of one part as they are in the object file.
inline std::vector<std::byte> ReadPart(const ObjectRef& object, PartIndex part) {
  const ByteRange range = object.PartRange(part);
  std::vector<std::byte> bytes(range.size());
  const auto file = object.File();
  if (!file.ok()) {
    ADD_FAILURE() << file.status().ToString();
    return {};
  }
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file.value()->get(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(range.begin + done));
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

/// What the fetch engine does with one part: room, bytes, commit.
inline Status StorePart(ObjectStore& store, const ObjectRef& object, PartIndex part,
                        const std::vector<std::byte>& bytes) {
  SpaceReservation reservation;
  ASSIGN_OR_RETURN(reservation, store.Reserve(object, bytes.size()));
  std::shared_ptr<const Fd> file;
  ASSIGN_OR_RETURN(file, object.File());
  const auto offset = static_cast<off_t>(object.PartRange(part).begin);
  if (::pwrite(file->get(), bytes.data(), bytes.size(), offset) != static_cast<ssize_t>(bytes.size())) {
    return Status::FromErrno(errno, "writing a part");
  }
  return store.Commit(object, part, Checksum64(bytes), std::move(reservation));
}

/// All parts of `content`, in order.
inline Status StoreWhole(ObjectStore& store, const ObjectRef& object, const std::vector<std::byte>& content) {
  for (uint32_t part = 0; part < object.part_count(); ++part) {
    const ByteRange range = object.PartRange(static_cast<PartIndex>(part));
    RETURN_IF_ERROR(StorePart(store, object, static_cast<PartIndex>(part),
                              {content.begin() + static_cast<ptrdiff_t>(range.begin),
                               content.begin() + static_cast<ptrdiff_t>(range.end)}));
  }
  return Status::Ok();
}

}  // namespace stoker::testing
