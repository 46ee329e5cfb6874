#include "fuse/errno_map.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace stoker {
namespace {

TEST(ErrnoMap, EveryCodeHasAnAnswerTheKernelAccepts) {
  for (int code = 1; code <= static_cast<int>(Code::kInternal); ++code) {
    const int err = ToErrno(Status(static_cast<Code>(code), "x"));
    EXPECT_GT(err, 0) << CodeName(static_cast<Code>(code));
    EXPECT_LT(err, 512) << CodeName(static_cast<Code>(code));
    EXPECT_NE(err, ENOSYS) << CodeName(static_cast<Code>(code));
  }
}

TEST(ErrnoMap, KeepsTheSystemsErrno) {
  EXPECT_EQ(ToErrno(Status::FromErrno(ENODATA, "x")), ENODATA);
  EXPECT_EQ(ToErrno(Status(Code::kNotFound, "x", ENXIO)), ENXIO);
  EXPECT_EQ(ToErrno(Status(Code::kPermissionDenied, "x", EROFS)), EROFS);
  EXPECT_EQ(ToErrno(Status(Code::kUnavailable, "x", ENOTCONN)), ENOTCONN);
}

TEST(ErrnoMap, NeverSaysWhatTheKernelTakesForSomethingElse) {
  // ENOSYS would switch the operation off for the whole mount; 512 and above are the kernel's own.
  EXPECT_EQ(ToErrno(Status(Code::kUnsupported, "x", ENOSYS)), EOPNOTSUPP);
  EXPECT_EQ(ToErrno(Status(Code::kIo, "x", 512)), EIO);
  EXPECT_EQ(ToErrno(Status(Code::kIo, "x", -5)), EIO);
}

TEST(ErrnoMap, StaleAndInterruptedSteerTheKernelWhateverTheErrno) {
  EXPECT_EQ(ToErrno(Status(Code::kStale, "x", EIO)), ESTALE);
  EXPECT_EQ(ToErrno(Status(Code::kCancelled, "x", ECANCELED)), EINTR);
}

TEST(ErrnoMap, CacheTroubleIsNotNamedToApplications) {
  EXPECT_EQ(ToErrno(Status(Code::kNoSpace, "x")), EIO);
  EXPECT_EQ(ToErrno(Status(Code::kCorruption, "x")), EIO);
}

TEST(ErrnoMap, EverydayAnswersAreQuiet) {
  EXPECT_EQ(LogLevelFor(Status(Code::kNotFound, "x")), LogLevel::kDebug);
  EXPECT_EQ(LogLevelFor(Status(Code::kStale, "x")), LogLevel::kDebug);
  EXPECT_EQ(LogLevelFor(Status(Code::kIo, "x")), LogLevel::kWarn);
  EXPECT_EQ(LogLevelFor(Status(Code::kInternal, "x")), LogLevel::kError);
}

}  // namespace
}  // namespace stoker
