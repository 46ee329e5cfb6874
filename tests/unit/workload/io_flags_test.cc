#include "workload/cli/io_flags.h"

#include <gmock/gmock.h>
#include <sstream>

#include "workload/cli/short_options.h"
#include "workload/io/lustre.h"

namespace stoker::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

IoOptions Good(const std::string& line) {
  const Result<IoCommand> command = ParseIoArguments(Words(line));
  EXPECT_TRUE(command.ok()) << line << ": " << command.status().message();
  return command.ok() ? command->options : IoOptions();
}

std::string Wrong(const std::string& line) {
  const Result<IoCommand> command = ParseIoArguments(Words(line));
  EXPECT_FALSE(command.ok()) << line;
  if (command.ok()) return "";
  EXPECT_EQ(command.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(command.status().message(), ::testing::StartsWith("io: "));
  return command.status().message();
}

TEST(IoFlags, ThePublishedLineOfTheLustrePage) {
  const IoOptions o =
      Good("-vv -F -a POSIX -w -r -b 20g -t 1m -i 2 -o /mnt/lustre/IORFile -O lustreStripeCount=0");
  EXPECT_EQ(o.verbose, 2u);
  EXPECT_TRUE(o.file_per_process && o.write && o.read);
  EXPECT_EQ(o.block_bytes, 20ull << 30);
  EXPECT_EQ(o.transfer_bytes, 1u << 20);
  EXPECT_EQ(o.repetitions, 2u);
  EXPECT_EQ(o.file, "/mnt/lustre/IORFile");
  EXPECT_TRUE(o.striping.asked);
  EXPECT_EQ(o.striping.count, 0);
  EXPECT_EQ(TaskFile(o, 3), "/mnt/lustre/IORFile.00000003");
}

TEST(IoFlags, LettersTogetherAndValuesJoinedOrApart) {
  for (const char* line : {"-wrF -t64k -b1m -s2", "-w -r -F -t=64k -b=1m -s=2",
                           "-w -r -F -t 64K -b 1048576 -s 2", "-t 64KiB -b 1MiB -Fwrs 2"}) {
    const IoOptions o = Good(line);
    EXPECT_TRUE(o.write && o.read && o.file_per_process) << line;
    EXPECT_EQ(o.transfer_bytes, 65536u) << line;
    EXPECT_EQ(o.block_bytes, 1048576u) << line;
    EXPECT_EQ(o.segments, 2u) << line;
  }
}

TEST(IoFlags, DefaultsAreThoseOfIor) {
  const IoOptions o = Good("");
  EXPECT_TRUE(o.write && o.read);
  EXPECT_EQ(o.block_bytes, 1u << 20);
  EXPECT_EQ(o.transfer_bytes, 1u << 18);
  EXPECT_EQ(o.tasks, 1u);
  EXPECT_EQ(o.file, "testFile");
  EXPECT_FALSE(Good("-w").read);
  EXPECT_FALSE(Good("-r").write);
  EXPECT_TRUE(Good("-R -G 5").reads());
}

TEST(IoFlags, DirectivesDoWhatTheirLettersDo) {
  const IoOptions o = Good(
      "-O writeFile=1,blockSize=4m,TRANSFERSIZE=2m -O "
      "filePerProc=1,deadlineForStonewalling=3,stoneWallingWearOut=1,"
      "useO_DIRECT=1,lustreStripeSize=1m,lustreStartOST=2,lustreStripeCount=-1");
  EXPECT_TRUE(o.write && o.file_per_process && o.wear_out && o.direct);
  EXPECT_FALSE(o.read);
  EXPECT_EQ(o.block_bytes, 4u << 20);
  EXPECT_EQ(o.stonewall_s, 3u);
  EXPECT_THAT(StripeCommand(o.striping, "f"),
              ElementsAre("lfs", "setstripe", "-c", "-1", "-S", "1048576", "-i", "2", "f"));
  EXPECT_THAT(StripeCommand(Good("-O lustreStripeCount=0").striping, "f"),
              ElementsAre("lfs", "setstripe", "f"));
}

TEST(IoFlags, ThreeSpellingsOfDirect) {
  EXPECT_TRUE(Good("-B").huge_pages);
  EXPECT_FALSE(Good("-B --no-huge-pages").huge_pages);
  EXPECT_TRUE(Good("-B").direct && Good("--odirect").direct && Good("--posix.odirect").direct);
}

TEST(IoFlags, EveryWrongValueIsNamed) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"-t 0", "-t 0"},
      {"-t 1x", "\"1x\" is not a size"},
      {"-t 12", "multiple of 8"},
      {"-t", "-t needs a value"},
      {"-b 0", "-b 0"},
      {"-b 3m -t 2m", "-b 3MiB is not a multiple of -t 2MiB"},
      {"-b 99999999999999999999g", "is not a size"},
      {"-b 1024t -s 4294967295 -N 4096 -t 1m", "more than any file system"},
      {"-s 0", "-s: \"0\""},
      {"-i 0", "-i: \"0\""},
      {"-i -1", "-i: \"-1\""},
      {"-i two", "-i: \"two\""},
      {"-N 0", "-N: \"0\""},
      {"-N 4097", "from 1 to 4096"},
      {"--tasks 1.5", "\"1.5\""},
      {"-Q -1", "-Q: \"-1\""},
      {"-X 1e9", "-X: \"1e9\""},
      {"-D x", "-D: \"x\""},
      {"-d x", "-d: \"x\""},
      {"-T x", "-T: \"x\""},
      {"-G 0", "-G: \"0\""},
      {"-A x", "-A: \"x\""},
      {"-a MPIIO", "\"MPIIO\" is not POSIX"},
      {"-o dir/", "names a folder"},
      {"-O lustreStripeCount", "not KEY=VALUE"},
      {"-O lustreStripeCount=", "not KEY=VALUE"},
      {"-O lustreStripeCont=1", "did you mean lustreStripeCount"},
      {"-O lustreStripeCount=many", "-O lustreStripeCount: \"many\""},
      {"-O writeFile=2", "not 0 or 1"},
      {"-O ,", "KEY=VALUE"},
      {"-C -Z", "-C and -Z"},
      {"-z -C", "-z gives"},
      {"-z -Z", "-z gives"},
      {"-W -r", "add -w"},
      {"-R", "-G"},
      {"-E -O lustreStripeCount=2", "-E keeps"},
      {"-O stoneWallingWearOut=1", "add -D"},
      {"--odirect -t 1000 -b 1000", "multiples of 512"},
      {"--cold-read -w", "--cold-read"},
      {"--mpi lam", "--mpi"},
      {"--odirect=1", "takes no value"},
      {"--odirekt", "did you mean --odirect"},
      {"--json", "--json needs a value"},
      {"-5", "unknown option -5"},
      {"-c", "IOR's -c is not here"},
      {"-wc", "IOR's -c is not here"},
      {"-w file", "\"file\" belongs to no option"},
  };
  for (const auto& [line, text] : cases) EXPECT_THAT(Wrong(line), HasSubstr(text)) << line;
}

TEST(IoFlags, EmptyFileName) {
  const Result<IoCommand> command = ParseIoArguments({"-o", ""});
  ASSERT_FALSE(command.ok());
  EXPECT_THAT(command.status().message(), HasSubstr("-o"));
}

TEST(IoFlags, HelpNamesEveryOptionAndNeedsNoOther) {
  const Result<IoCommand> command = ParseIoArguments({"-t", "0", "--help"});
  ASSERT_TRUE(command.ok());
  EXPECT_TRUE(command->help);
  EXPECT_THAT(IoHelp(), ::testing::AllOf(HasSubstr("-F"), HasSubstr("--cold-read"), HasSubstr("-O KEY")));
}

TEST(IoFlags, TasksOfAllProcesses) {
  EXPECT_EQ(ParseIoArguments({})->tasks, 0u);  // one for each process
  EXPECT_EQ(ParseIoArguments({"-N", "6"})->tasks, 6u);
  EXPECT_EQ(ParseIoArguments({"--mpi", "off"})->mpi, MpiChoice::kOff);
}

}  // namespace
}  // namespace stoker::bench
