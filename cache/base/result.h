#pragma once

#include <optional>
#include <utility>

#include "cache/base/check.h"
#include "cache/base/status.h"

namespace stoker {

/// A value, or the Status that says why there is none. std::expected is C++23; this is the part of it we
/// need.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose, `return value;`
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose, `return status;`
    STOKER_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  /// Ok when there is a value.
  const Status& status() const { return status_; }

  /// REQUIRES ok().
  T& value() & {
    STOKER_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    STOKER_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    STOKER_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace stoker
