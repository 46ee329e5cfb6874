#include "fuse/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;

class ConfigTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name, std::ios::binary) << text;
    return dir_ / name;
  }
  Result<Config> FromYaml(const std::string& text) {
    return LoadConfig({.system_file = "", .file = Write("c.yaml", text)});
  }
  Result<Config> FromProperties(const std::string& text) {
    return LoadConfig({.system_file = "", .alluxio_properties = Write("a.properties", text)});
  }
  static Result<Config> FromOption(const std::string& key, const std::string& value) {
    return LoadConfig({.system_file = "", .overrides = {{"option -o", key, value}}});
  }
  /// The message without the directory, which differs each time.
  std::string Message(const Result<Config>& result) {
    if (result.ok()) return "(accepted)";
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    std::string text = result.status().message();
    const std::string prefix = dir_.path() + "/";
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }
  std::string YamlError(const std::string& text) { return Message(FromYaml(text)); }

  TempDir dir_;
};

std::string ReadSource(const std::string& path) {
  const char* root = std::getenv("STOKER_SOURCE");
  std::ifstream in(std::string(root != nullptr ? root : STOKER_SOURCE_DIR) + "/" + path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST_F(ConfigTest, DefaultsAreWhatTheListSays) {
  const Settings s = DefaultSettings();
  EXPECT_EQ(s.cache_dirs, std::vector<std::string>{"/var/cache/stoker"});
  EXPECT_EQ(s.cache_size.percent, 90);
  EXPECT_EQ(s.prefetch_threads, 64u);
  EXPECT_EQ(s.prefetch_part_length, 4 * kMiB);
  EXPECT_EQ(s.prefetch_budget, kGiB);
  EXPECT_EQ(s.metadata_ttl, std::chrono::seconds(60));
  EXPECT_EQ(s.fuse_threads, 0u);
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.type != ConfigType::kDuration) {  // 60s is also 1m
      EXPECT_EQ(GetValue(key, s), key.default_text)
          << key.name << ": the default is not in its canonical spelling";
    }
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_FALSE(key.reason.empty()) << key.name;
    EXPECT_FALSE(key.unit.empty()) << key.name;
  }
  for (const AlluxioKey& key : AlluxioKeys()) {
    EXPECT_TRUE(LooksLikeAlluxio(key.name)) << "'" << key.name << "'";
    EXPECT_NE(key.native.empty(), key.why.empty()) << key.name;
    if (!key.native.empty()) {
      EXPECT_NE(FindConfigKey(key.native), nullptr) << key.name;
    }
  }
}

TEST_F(ConfigTest, TheShippedFilesAndDocsAreWhatTheListPrints) {
  EXPECT_EQ(ReadSource("conf/default.yaml"), RenderDefaultYaml())
      << "run: stoker config default > conf/default.yaml";
  EXPECT_EQ(ReadSource("docs/metrics.md"), RenderMetricsPage())
      << "run: stoker config metrics > docs/metrics.md";
  EXPECT_EQ(ReadSource("docs/configuration.md"), RenderConfigMarkdown())
      << "run: stoker config docs > docs/configuration.md";
}

TEST_F(ConfigTest, DefaultYamlSetsEveryKeyToItsDefault) {
  Result<Config> config = FromYaml(ReadSource("conf/default.yaml"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  for (const ConfigKey& key : ConfigKeys()) {
    EXPECT_EQ(GetValue(key, config->settings), GetValue(key, DefaultSettings())) << key.name;
    EXPECT_THAT(config->Origin(key.name).where, HasSubstr("c.yaml:"))
        << key.name << " is missing in the file";
  }
}

TEST_F(ConfigTest, SmallYamlIsAccepted) {
  Result<Config> config = FromYaml(ReadSource("conf/small.yaml"));
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_LT(config->settings.prefetch_threads, 64u);
}

TEST_F(ConfigTest, LaterPlacesWinAndOriginsTell) {
  const std::string system =
      Write("etc.yaml", "prefetch: {threads: 2, max_parts: 2, budget: 2GiB}\nlog: {level: warn}\n");
  const std::string file = Write("c.yaml", "prefetch:\n  threads: 3\n  max_parts: 3\n");
  const std::string properties =
      Write("a.properties", "alluxio.user.position.reader.streaming.async.prefetch.thread=4\n");
  Result<Config> config = LoadConfig({.system_file = system,
                                      .file = file,
                                      .alluxio_properties = properties,
                                      .overrides = {{"option -o", "prefetch.max_parts", "5"},
                                                    {"option --passthrough", "fuse.passthrough", "off"},
                                                    {"option -o", "fuse.passthrough", "on"}}});
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->settings.prefetch_threads, 4u);
  EXPECT_EQ(config->Origin("prefetch.threads").where, properties + ":1");
  EXPECT_EQ(config->Origin("prefetch.threads").alias,
            "alluxio.user.position.reader.streaming.async.prefetch.thread");
  EXPECT_EQ(config->settings.prefetch_max_parts, 5u);
  EXPECT_EQ(config->Origin("prefetch.max_parts").where, "option -o");
  EXPECT_EQ(config->settings.prefetch_budget, 2 * kGiB);
  EXPECT_EQ(config->Origin("prefetch.budget").where, system + ":1");
  EXPECT_EQ(config->settings.fuse_passthrough, "on") << "the later option wins";
  EXPECT_EQ(config->Origin("metadata.ttl").where, "default");
}

TEST_F(ConfigTest, ShowIsAConfigurationAgain) {
  Result<Config> config =
      FromYaml("cache:\n  dirs: ['/a b#c']\n  size: 12.5%\nlog: {file: \"/x: y\"}\nfuse: {threads: 7}\n");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  const std::string shown = RenderConfigYaml(*config);
  Result<Config> again = FromYaml(shown);
  ASSERT_TRUE(again.ok()) << again.status().ToString() << "\n" << shown;
  for (const ConfigKey& key : ConfigKeys()) {
    EXPECT_EQ(GetValue(key, again->settings), GetValue(key, config->settings)) << key.name;
  }
  const auto json = nlohmann::json::parse(RenderConfigJson(*config));
  EXPECT_EQ(json["cache.dirs"]["value"][0], "/a b#c");
  EXPECT_EQ(json["prefetch.threads"]["value"], 64);
  EXPECT_EQ(json["prefetch.threads"]["source"], "default");
  EXPECT_EQ(json["cache.size"]["source"], dir_ / "c.yaml" + ":3");
}

TEST_F(ConfigTest, BadYamlIsAnsweredWithPlaceKeyValueAndRemedy) {
  EXPECT_EQ(YamlError("prefetch:\n  thread: 4\n"),
            "c.yaml:2: unknown key 'prefetch.thread': did you mean 'prefetch.threads'?");
  EXPECT_EQ(YamlError("cache: [1, 2]\n"),
            "c.yaml:1: 'cache' is a section and has no value: write its keys below it, e.g. cache.dirs");
  EXPECT_EQ(YamlError("threads: 4\nx: 1\n"),
            "c.yaml:1: unknown key 'threads': `stoker config docs` lists all keys");
  EXPECT_EQ(YamlError("part_length: 4MiB\n"),
            "c.yaml:1: unknown key 'part_length': did you mean 'prefetch.part_length'?");
  EXPECT_EQ(YamlError("prefetch:\n\n  part_length: 3\n"),
            "c.yaml:3: prefetch.part_length: '3' is not a size: the unit is missing, e.g. 3MiB");
  EXPECT_EQ(YamlError("prefetch: {part_length: 5000B}\n"),
            "c.yaml:1: prefetch.part_length: '5000B' is not a multiple of 4KiB: use 8KiB");
  EXPECT_EQ(YamlError("prefetch: {part_length: 0}\n"),
            "c.yaml:1: prefetch.part_length: '0' is too small: use at least 4KiB");
  EXPECT_EQ(YamlError("prefetch: {part_length: 2GiB}\n"),
            "c.yaml:1: prefetch.part_length: '2GiB' is too large: use at most 1GiB");
  EXPECT_EQ(YamlError("prefetch: {part_length: 4 parsecs}\n"),
            "c.yaml:1: prefetch.part_length: '4 parsecs' is not a size: unknown unit 'parsecs', use B, KiB, "
            "MiB, GiB, "
            "TiB, KB, MB, GB or TB");
  EXPECT_EQ(YamlError("prefetch: {threads: 0}\n"),
            "c.yaml:1: prefetch.threads: '0' is too small: use a whole number from 1 to 1024");
  EXPECT_EQ(YamlError("prefetch: {threads: -1}\n"),
            "c.yaml:1: prefetch.threads: '-1' is not a whole number: use a whole number from 1 to 1024");
  EXPECT_EQ(
      YamlError("prefetch: {threads: 99999999999999999999}\n"),
      "c.yaml:1: prefetch.threads: '99999999999999999999' is too large: use a whole number from 1 to 1024");
  EXPECT_EQ(YamlError("fuse: {threads: 0}\n"),
            "c.yaml:1: fuse.threads: '0' is too small: use a whole number from 1 to 1024, or auto");
  EXPECT_EQ(YamlError("fuse: {passthrough: maybe}\n"),
            "c.yaml:1: fuse.passthrough: 'maybe' is not one of its values: use auto, on or off");
  EXPECT_EQ(YamlError("fuse: {allow_other: 1}\n"), "c.yaml:1: fuse.allow_other: '1' is not true or false");
  EXPECT_EQ(YamlError("metadata: {ttl: 60}\n"),
            "c.yaml:1: metadata.ttl: '60' is not a duration: the unit is missing, e.g. 60s");
  EXPECT_EQ(YamlError("fuse: {stop_grace: 1ms}\n"),
            "c.yaml:1: fuse.stop_grace: '1ms' is too short: use at least 100ms");
  EXPECT_EQ(YamlError("fuse: {stop_grace: 1h}\n"),
            "c.yaml:1: fuse.stop_grace: '1h' is too long: use at most 10m");
  EXPECT_EQ(YamlError("cache: {size: 101%}\n"),
            "c.yaml:1: cache.size: '101%' is not a share of the disk: use 0% to 100%");
  EXPECT_EQ(YamlError("cache: {size: 90}\n"),
            "c.yaml:1: cache.size: '90' is not a size: the unit is missing, e.g. 90MiB, or a share of the "
            "disk such as "
            "90%");
  EXPECT_EQ(YamlError("cache: {dirs: []}\n"), "c.yaml:1: cache.dirs: the list is empty: name one directory");
  EXPECT_EQ(YamlError("cache: {dirs: [rel]}\n"),
            "c.yaml:1: cache.dirs: 'rel' is not an absolute path: begin it with /");
  EXPECT_EQ(YamlError("cache: {dirs: [{a: b}]}\n"),
            "c.yaml:1: cache.dirs: every item of the list must be one plain value");
  EXPECT_EQ(YamlError("prefetch: {threads: [1]}\n"),
            "c.yaml:1: prefetch.threads: a list is not a value for it: write one value (threads)");
  EXPECT_EQ(YamlError("prefetch: {threads: {a: 1}}\n"),
            "c.yaml:1: prefetch.threads takes a value, not a section");
  EXPECT_EQ(YamlError("prefetch:\n  threads:\n"),
            "c.yaml:2: prefetch.threads has no value: write one or remove the line");
  EXPECT_EQ(YamlError("prefetch:\n  threads: 1\n  threads: 2\n"),
            "c.yaml:3: prefetch.threads: prefetch.threads was set before at c.yaml:2: keep one of the two");
  EXPECT_EQ(YamlError("- a\n"), "c.yaml:1: a configuration is a list of 'section:' and 'key: value' lines");
  EXPECT_EQ(YamlError("control: {http: '0.0.0.0:80'}\n"),
            "c.yaml:1: control.http: '0.0.0.0:80' is not a loopback address, and this port knows no "
            "permissions: use "
            "127.0.0.1 or [::1], and a proxy in front of it to reach it from elsewhere");
  EXPECT_EQ(YamlError("control: {http: '127.0.0.1'}\n"),
            "c.yaml:1: control.http: '127.0.0.1' is not ADDRESS:PORT, e.g. 127.0.0.1:9105");
  EXPECT_EQ(YamlError("control: {http: '127.0.0.1:0'}\n"),
            "c.yaml:1: control.http: '127.0.0.1:0': the port must be a number from 1 to 65535");
  EXPECT_EQ(YamlError("control: {http: 'example.com:80'}\n"),
            "c.yaml:1: control.http: 'example.com:80': 'example.com' is not a numeric address: use 127.0.0.1 "
            "or [::1]");
  EXPECT_EQ(YamlError("control: {socket: rel.sock}\n"),
            "c.yaml:1: control.socket: 'rel.sock' is not an absolute path: begin it with /");
  EXPECT_THAT(YamlError("a: [\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(YamlError("? [a]\n: b\n"), HasSubstr("c.yaml:1: a key must be a plain word"));
}

TEST_F(ConfigTest, KeysAreCheckedAgainstEachOther) {
  EXPECT_EQ(YamlError("prefetch:\n  budget: 1MiB\n"),
            "c.yaml:2: prefetch.budget: 1MiB is smaller than one part (prefetch.part_length is 4MiB): raise "
            "it to at "
            "least 4MiB");
  EXPECT_EQ(YamlError("cache:\n  size: 1MiB\n"),
            "c.yaml:2: cache.size: 1MiB is smaller than one part (prefetch.part_length is 4MiB): raise it to "
            "at least "
            "4MiB");
  EXPECT_EQ(YamlError("cache: {size: 0%}\n"),
            "c.yaml:1: cache.size: 0% leaves no room for one part: raise it");
  Result<Config> small = FromOption("cache.size", "0.001%");
  ASSERT_TRUE(small.ok());
  const Result<ObjectStoreOptions> store = MakeStoreOptions(small->settings, kGiB);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().message(),
            "cache.size: of this disk (1.0 GiB) it comes to 10.5 KiB, smaller than one part "
            "(prefetch.part_length is "
            "4MiB): raise it");
}

TEST_F(ConfigTest, KeysOfLaterVersionsAreNotTakenSilently) {
  EXPECT_EQ(YamlError("write: {mode: back}\n"),
            "c.yaml:1: write.mode is not supported by this version (the mount is read-only): remove it or "
            "set it to off");
  EXPECT_TRUE(FromYaml("write: {mode: off}\nfuse: {transport: dev}\nmetadata: {rules: []}\n").ok());
  EXPECT_EQ(YamlError("s3: {region: x}\n"),
            "c.yaml:1: s3.region is not supported by this version (there is no S3 driver): remove it");
}

TEST_F(ConfigTest, RulesAreReadAndCanBeShownAndReadAgain) {
  const std::string text =
      "metadata:\n"
      "  rules:\n"
      "    - {path: train/**, class: immutable}\n"
      "    - {path: '*.log', class: revalidate, ttl: 500ms}\n"
      "    - path: \"/a \\\"b\\\"\"\n"
      "      class: skip\n";
  const std::vector<PathRule> expected = {{"train/**", PathClass::kImmutable},
                                          {"*.log", PathClass::kRevalidate, std::chrono::milliseconds(500)},
                                          {"/a \"b\"", PathClass::kSkip}};
  const Result<Config> config = FromYaml(text);
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->settings.metadata_rules, expected);
  EXPECT_EQ(MakeFilesystemOptions(config->settings).rules, expected);
  const Result<Config> again = FromYaml(RenderConfigYaml(*config));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->settings.metadata_rules, expected);
  const auto json = nlohmann::json::parse(RenderConfigJson(*config));
  EXPECT_EQ(json["metadata.rules"]["value"][1]["ttl"], "500ms");
  EXPECT_TRUE(FromOption("metadata.rules", "[]").ok());
}

TEST_F(ConfigTest, BadRulesAreAnsweredWithPlaceValueAndRemedy) {
  const auto error = [this](const std::string& rule) {
    return YamlError("metadata:\n  rules:\n    - {path: ok, class: skip}\n    - " + rule + "\n");
  };
  const std::string at = "c.yaml:4: metadata.rules: ";
  EXPECT_EQ(error("{path: a, class: imutable}"),
            at + "class: 'imutable' is not a class: did you mean 'immutable'?");
  EXPECT_EQ(error("{path: a, class: x}"),
            at + "class: 'x' is not a class: use immutable, revalidate or skip");
  EXPECT_EQ(error("{pth: a, class: skip}"), at + "unknown key 'pth': did you mean 'path'?");
  EXPECT_EQ(error("{class: skip}"), at + "the rule has no path: add path: GLOB");
  EXPECT_EQ(error("{path: a}"),
            at + "the rule for 'a' has no class: add class: immutable, revalidate or skip");
  EXPECT_EQ(error("{path: a, class: skip, ttl: 1s}"),
            at + "the rule for 'a' has a ttl, which only revalidate takes: remove the ttl or write class: "
                 "revalidate");
  EXPECT_EQ(error("{path: a, class: revalidate, ttl: 5}"),
            at + "ttl: '5' is not a duration: the unit is missing, e.g. 5s");
  EXPECT_EQ(error("{path: a/, class: skip}"),
            at + "path: 'a/' ends with / and fits nothing: write a/** for what is below");
  EXPECT_EQ(error("a"), at + "every item must be {path: GLOB, class: immutable|revalidate|skip}");
  EXPECT_EQ(error("{path: [a], class: skip}"), at + "'path' must have one plain value");
  EXPECT_EQ(YamlError("metadata: {rules: x}\n"),
            "c.yaml:1: metadata.rules: 'x' is not a list of rules: write them into a configuration file "
            "(--config), or []");
  std::string many = "metadata:\n  rules:\n";
  for (int i = 0; i < 257; ++i) many += "  - {path: a, class: skip}\n";
  EXPECT_EQ(YamlError(many), "c.yaml:259: metadata.rules: more than 256 rules: use wider globs");
}

TEST_F(ConfigTest, EveryCachePolicyReachesTheStore) {
  for (const CachePolicy policy :
       {CachePolicy::kRetain, CachePolicy::kLru, CachePolicy::kS3Fifo, CachePolicy::kAuto}) {
    const std::string name(PolicyName(policy));
    const Result<Config> config = FromYaml("cache: {policy: " + name + "}\n");
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    const Result<ObjectStoreOptions> store = MakeStoreOptions(config->settings, 100 * kGiB);
    ASSERT_TRUE(store.ok());
    EXPECT_EQ(store->policy, policy) << name;
  }
  EXPECT_EQ(MakeStoreOptions(DefaultSettings(), 100 * kGiB)->policy, CachePolicy::kAuto);
  EXPECT_EQ(YamlError("cache: {policy: fifo}\n"),
            "c.yaml:1: cache.policy: 'fifo' is not one of its values: use auto, retain, lru or s3fifo");
}

TEST_F(ConfigTest, EmptyFilesAndSectionsSetNothing) {
  EXPECT_TRUE(FromYaml("").ok());
  EXPECT_TRUE(FromYaml("# nothing\n").ok());
  EXPECT_TRUE(FromYaml("prefetch:\n").ok());
  EXPECT_TRUE(FromYaml("prefetch.threads: 9\n").ok()) << "flat names are fine";
}

TEST_F(ConfigTest, AlluxioNamesSetTheirNativeKeys) {
  const std::string base = "alluxio.user.position.reader.streaming.async.prefetch.";
  Result<Config> config = FromYaml(base + "enable: false\n" + base + "thread: 256\n" + base +
                                   "part.length: 8MB\n" + base + "max.part.number: 8\n");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_FALSE(config->settings.prefetch_enable);
  EXPECT_EQ(config->settings.prefetch_threads, 256u);
  EXPECT_EQ(config->settings.prefetch_part_length, 8 * kMiB) << "Alluxio's MB is binary";
  EXPECT_EQ(config->settings.prefetch_max_parts, 8u);
  EXPECT_THAT(RenderConfigYaml(*config), HasSubstr("c.yaml:2, as " + base + "thread\n"));

  EXPECT_EQ(FromOption(base + "part.length", "4194304")->settings.prefetch_part_length, 4 * kMiB);
  EXPECT_EQ(FromOption(base + "part.length", "512kb")->settings.prefetch_part_length, 512 * kKiB);
  EXPECT_EQ(FromOption(base + "enable", "FALSE")->settings.prefetch_enable, false);
  EXPECT_EQ(Message(FromOption(base + "part.length", "4 parsecs")),
            "option -o: " + base +
                "part.length: '4 parsecs' is not a size: write a number with B, KB, MB, GB or TB " +
                "(binary, as in Alluxio)");
  EXPECT_EQ(Message(FromOption(base + "part.length", "3")),
            "option -o: " + base + "part.length: '3B' is not a multiple of 4KiB: use 4KiB");
  EXPECT_EQ(YamlError(base + "thread: 3\nprefetch: {threads: 4}\n"),
            "c.yaml:2: prefetch.threads: prefetch.threads was set before at c.yaml:1: keep one of the two");
}

TEST_F(ConfigTest, OtherAlluxioNamesAreRefusedByName) {
  EXPECT_EQ(YamlError("alluxio.user.client.cache.size: 1GB\n"),
            "c.yaml:1: alluxio.user.client.cache.size is Alluxio's and has no meaning here (set cache.size "
            "instead): "
            "remove it");
  EXPECT_EQ(YamlError("alluxio:\n  user:\n    client.cache.enabled: true\n"),
            "c.yaml:3: alluxio.user.client.cache.enabled is Alluxio's and has no meaning here (the cache is "
            "always on): "
            "remove it");
  EXPECT_EQ(YamlError("alluxio.user.position.reader.streaming.async.prefetch.threads: 1\n"),
            "c.yaml:1: unknown Alluxio key 'alluxio.user.position.reader.streaming.async.prefetch.threads', "
            "it has no "
            "meaning here: remove it, or did you mean "
            "'alluxio.user.position.reader.streaming.async.prefetch.thread'?");
}

TEST_F(ConfigTest, PropertiesFileIsReadAsJavaReadsIt) {
  const std::string base = "alluxio.user.position.reader.streaming.async.prefetch.";
  Result<Config> config = FromProperties("# comment\n! another\n\n  " + base + "thread = 128\n" + base +
                                         "part.length:\\\n    4MB  \r\n" + base + "enable true\n");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->settings.prefetch_threads, 128u);
  EXPECT_EQ(config->settings.prefetch_part_length, 4 * kMiB);
  EXPECT_THAT(config->Origin("prefetch.part_length").where, HasSubstr("a.properties:5"));

  EXPECT_EQ(Message(FromProperties("alluxio.master.hostname=x\nalluxio.user.client.cache.size=1GB\n")),
            "a.properties: these keys have no meaning here, remove them: line 1 alluxio.master.hostname "
            "(unknown); line "
            "2 alluxio.user.client.cache.size (set cache.size instead)");
  EXPECT_EQ(Message(FromProperties("prefetch.threads=4\n")),
            "a.properties:1: 'prefetch.threads' is not an Alluxio key: this file takes Alluxio's names, "
            "--config and -o "
            "take Stoker's");
  EXPECT_EQ(Message(FromProperties(base + "thread=0\n")),
            "a.properties:1: " + base + "thread: '0' is too small: use a whole number from 1 to 1024");
}

TEST_F(ConfigTest, MissingAndOddFilesAreNamed) {
  const Result<Config> missing = LoadConfig({.system_file = "", .file = dir_ / "none.yaml"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
  EXPECT_EQ(missing.status().message(),
            "cannot read the configuration " + (dir_ / "none.yaml") + ": No such file or directory");
  EXPECT_EQ(Message(LoadConfig({.system_file = "", .file = dir_.path()})),
            "the configuration " + dir_.path() + " is not a regular file");
  EXPECT_TRUE(LoadConfig({.system_file = dir_ / "none.yaml"}).ok()) << "the system file is optional";
  EXPECT_THAT(YamlError(std::string(2 << 20, '#')), HasSubstr("is larger than 1MiB"));
}

TEST_F(ConfigTest, MountOptionsAreSplit) {
  Result<std::vector<ConfigOverride>> options =
      ParseMountOptions("ro,prefetch.threads=256,allow_other,log.file=/a=b");
  ASSERT_TRUE(options.ok());
  ASSERT_EQ(options->size(), 3u);
  EXPECT_EQ((*options)[0].key, "prefetch.threads");
  EXPECT_EQ((*options)[0].value, "256");
  EXPECT_EQ((*options)[1].key, "fuse.allow_other");
  EXPECT_EQ((*options)[2].value, "/a=b");
  EXPECT_EQ(ParseMountOptions("rw").status().message(),
            "option -o: rw: the mount is read-only in this version: leave it out");
  EXPECT_EQ(ParseMountOptions("prefetch.threads").status().message(),
            "option -o: 'prefetch.threads' is not KEY=VALUE, e.g. -o prefetch.threads=256");
  EXPECT_EQ(Message(FromOption("prefetch.thread", "1")),
            "option -o: unknown key 'prefetch.thread': did you mean 'prefetch.threads'?");
}

TEST_F(ConfigTest, EveryLimitHoldsAtItsEdges) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.type != ConfigType::kCount && key.type != ConfigType::kAutoOrCount) continue;
    Settings s = DefaultSettings();
    EXPECT_TRUE(SetValue(key, std::to_string(key.min), s).ok()) << key.name;
    EXPECT_TRUE(SetValue(key, std::to_string(key.max), s).ok()) << key.name;
    EXPECT_FALSE(SetValue(key, std::to_string(key.max + 1), s).ok()) << key.name;
    EXPECT_FALSE(SetValue(key, std::to_string(key.min - 1), s).ok()) << key.name;
  }
}

TEST_F(ConfigTest, LoopbackAddresses) {
  EXPECT_EQ(ParseLoopbackAddress("localhost:9105")->address, "127.0.0.1");
  EXPECT_EQ(ParseLoopbackAddress("127.1.2.3:1")->port, 1);
  EXPECT_TRUE(ParseLoopbackAddress("[::1]:9105")->ipv6);
  EXPECT_FALSE(ParseLoopbackAddress("[::2]:9105").ok());
  EXPECT_FALSE(ParseLoopbackAddress("127.0.0.1:65536").ok());
  EXPECT_FALSE(ParseLoopbackAddress(":80").ok());
}

TEST_F(ConfigTest, SizesTakeSharesOfTheDisk) {
  Result<Config> config = FromOption("cache.size", "25%");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->settings.cache_size.Of(4 * kGiB), kGiB);
  Result<ObjectStoreOptions> store = MakeStoreOptions(config->settings, 100 * kGiB);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(store->limit_bytes, 25 * kGiB);
  EXPECT_EQ(store->min_free_bytes, 5 * kGiB);
}

}  // namespace
}  // namespace stoker
