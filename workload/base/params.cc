#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <utility>

#include "cache/base/spelling.h"
#include "workload/base/profile.h"

namespace stoker::bench {
namespace {

constexpr char kRecordKey[] = "dataset.record_length_bytes";
constexpr char kColumnsKey[] = "dataset.parquet.columns";

/// The footer describes every chunk, about 70 bytes each, and readers keep it in memory. dlrm has 153 600.
constexpr uint64_t kMostChunks = 4'000'000;
/// Of all files: what is more cannot be stored anywhere, and would leave the range of sums.
constexpr double kMostDatasetBytes = 4e18;
/// Of one row of one column: pages have 31-bit sizes.
constexpr double kMostColumnBytes = 1e9;

struct Key {
  std::string name;
  std::string old_name;  // the spelling of earlier editions, or ""
  std::function<Status(Profile&, const std::string& key, std::string_view value)> set;
  std::function<std::string(const Profile&)> get;
};

Status Bad(const std::string& key, std::string_view value, const std::string& why) {
  return Status(Code::kInvalidArgument, key + ": \"" + std::string(value) + "\" " + why);
}

std::string Number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

Key Whole(std::string name, std::string old_name, uint64_t Profile::*field, uint64_t min,
          uint64_t max = std::numeric_limits<uint32_t>::max()) {
  return {std::move(name), std::move(old_name),
          [=](Profile& profile, const std::string& key, std::string_view value) {
            uint64_t parsed = 0;
            const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
            if (error != std::errc() || end != value.data() + value.size() || parsed < min || parsed > max) {
              return Bad(key, value,
                         "is not a whole number from " + std::to_string(min) + " to " + std::to_string(max));
            }
            profile.*field = parsed;
            return Status::Ok();
          },
          [=](const Profile& profile) { return std::to_string(profile.*field); }};
}

/// `open_low`: the lower bound itself is not allowed.
Key Real(std::string name, std::string old_name, double Profile::*field, double low, bool open_low,
         double high) {
  return {std::move(name), std::move(old_name),
          [=](Profile& profile, const std::string& key, std::string_view value) {
            double parsed = 0;
            const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
            if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(parsed) ||
                parsed < low || (open_low && parsed == low) || parsed > high) {
              return Bad(key, value,
                         std::string("is not a number ") + (open_low ? "above " : "from ") + Number(low) +
                             " up to " + Number(high));
            }
            profile.*field = parsed;
            return Status::Ok();
          },
          [=](const Profile& profile) { return Number(profile.*field); }};
}

Key Flag(std::string name, bool Profile::*field) {
  return {std::move(name), "",
          [=](Profile& profile, const std::string& key, std::string_view value) {
            const bool yes = value == "true" || value == "True" || value == "1";
            if (!yes && value != "false" && value != "False" && value != "0") {
              return Bad(key, value, "is neither true nor false");
            }
            profile.*field = yes;
            return Status::Ok();
          },
          [=](const Profile& profile) { return std::string(profile.*field ? "true" : "false"); }};
}

Key FileNamePart(std::string name, std::string Profile::*field) {
  return {std::move(name), "",
          [=](Profile& profile, const std::string& key, std::string_view value) {
            if (value.empty() || value.size() > 100 || value.find('/') != std::string_view::npos ||
                value.front() == '.') {
              return Bad(key, value, "cannot start a file name: no slash, no leading dot, 1 to 100 bytes");
            }
            profile.*field = value;
            return Status::Ok();
          },
          [=](const Profile& profile) { return profile.*field; }};
}

Key Folder(std::string name, std::string Profile::*field) {
  return {std::move(name), "",
          [=](Profile& profile, const std::string& key, std::string_view value) {
            if (value.empty()) return Bad(key, value, "is empty; give a folder");
            profile.*field = value;
            return Status::Ok();
          },
          [=](const Profile& profile) { return profile.*field; }};
}

Key FormatKey(std::string name) {
  return {std::move(name), "",
          [](Profile& profile, const std::string& key, std::string_view value) {
            ASSIGN_OR_RETURN(profile.format, ParseFormat(key, value));
            return Status::Ok();
          },
          [](const Profile& profile) { return profile.format ? std::string(Name(*profile.format)) : ""; }};
}

/// One of a closed list of names.
template <typename T>
Key Choice(std::string name, std::string old_name, T Profile::*field,
           Result<T> (*parse)(std::string_view, std::string_view)) {
  return {std::move(name), std::move(old_name),
          [=](Profile& profile, const std::string& key, std::string_view value) {
            ASSIGN_OR_RETURN(profile.*field, parse(key, value));
            return Status::Ok();
          },
          [=](const Profile& profile) { return std::string(Name(profile.*field)); }};
}

Key Columns(std::string name, std::vector<Column> Profile::*field) {
  return {std::move(name), "",
          [=](Profile& profile, const std::string& key, std::string_view value) {
            ASSIGN_OR_RETURN(profile.*field, ParseColumns(key, value));
            return Status::Ok();
          },
          [=](const Profile& profile) { return ColumnsText(profile.*field); }};
}

const std::vector<Key>& Keys() {
  static const std::vector<Key> keys = {
      Choice("framework", "reader.data_loader", &Profile::framework, &ParseFramework),
      FormatKey("dataset.format"),
      Folder("dataset.data_folder", &Profile::data_folder),
      FileNamePart("dataset.file_prefix", &Profile::file_prefix),
      Whole("dataset.num_files_train", "", &Profile::num_files_train, 1),
      Whole("dataset.num_samples_per_file", "", &Profile::num_samples_per_file, 1, 10'000'000),
      Real(kRecordKey, "dataset.record_length", &Profile::record_bytes, 1, false, 1e15),
      Real("dataset.record_length_bytes_stdev", "dataset.record_length_stdev", &Profile::record_bytes_stdev,
           0, false, 1e15),
      Real("dataset.record_length_bytes_resize", "dataset.record_length_resize",
           &Profile::record_bytes_resize, 0, false, 1e15),
      Whole("dataset.num_subfolders_train", "", &Profile::num_subfolders_train, 0, 1'000'000),
      Columns(kColumnsKey, &Profile::columns),
      Whole("dataset.parquet.row_group_size", "", &Profile::row_group_rows, 1),
      Whole("reader.batch_size", "", &Profile::batch_size, 1, 1'000'000),
      Whole("reader.read_threads", "", &Profile::read_threads, 1, 1024),
      Whole("reader.prefetch_size", "", &Profile::prefetch_size, 0, 4096),
      Whole("reader.computation_threads", "", &Profile::computation_threads, 1, 1024),
      Whole("reader.transfer_size", "", &Profile::transfer_size, 0, uint64_t{1} << 30),
      Choice("reader.file_shuffle", "", &Profile::file_shuffle, &ParseShuffle),
      Choice("reader.sample_shuffle", "", &Profile::sample_shuffle, &ParseShuffle),
      Whole("reader.shuffle_size", "", &Profile::shuffle_size, 1),
      Flag("reader.odirect", &Profile::odirect),
      Whole("train.epochs", "", &Profile::epochs, 1, 1'000'000),
      Whole("train.total_training_steps", "", &Profile::total_training_steps, 0),
      Real("train.computation_time", "", &Profile::computation_time, 1e-9, false, 3600),
      Real("metric.au", "", &Profile::au, 0, false, 1),
      Whole("metric.exclude_start_steps", "", &Profile::exclude_start_steps, 0),
      Whole("metric.exclude_end_steps", "", &Profile::exclude_end_steps, 0),
  };
  return keys;
}

}  // namespace

Status SetParam(Profile& profile, std::string_view key, std::string_view value) {
  std::vector<std::string> names;
  for (const Key& known : Keys()) {
    if (key == known.name || (!known.old_name.empty() && key == known.old_name)) {
      RETURN_IF_ERROR(known.set(profile, std::string(key), value));
      if (known.name == kRecordKey) profile.record_from_columns = false;
      if (known.name == kColumnsKey && profile.record_bytes == 0) profile.record_from_columns = true;
      if (profile.record_from_columns) {
        profile.record_bytes = static_cast<double>(NominalRowBytes(profile.columns));
      }
      return Status::Ok();
    }
    names.push_back(known.name);
    if (!known.old_name.empty()) names.push_back(known.old_name);
  }
  std::string message = "unknown key \"" + std::string(key) + "\"";
  const std::string near = NearestSpelling(key, names);
  message += near.empty() ? "; the keys are " + Join(names) : "; did you mean \"" + near + "\"?";
  return Status(Code::kInvalidArgument, message);
}

Status ApplyParam(Profile& profile, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return Status(Code::kInvalidArgument,
                  "--param: \"" + std::string(assignment) + "\" is not of the form key=value");
  }
  const Status set = SetParam(profile, assignment.substr(0, equals), assignment.substr(equals + 1));
  if (!set.ok()) return Status(set.code(), "--param: " + set.message());
  profile.overridden.emplace_back(assignment);
  return Status::Ok();
}

std::vector<std::pair<std::string, std::string>> EffectiveParams(const Profile& profile) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Key& key : Keys()) out.emplace_back(key.name, key.get(profile));
  return out;
}

namespace {

/// Bytes of all files, rather too many: a file's two dimensions may both lie six deviations above the mean.
double MostDatasetBytes(const Profile& profile) {
  const double root = std::sqrt(profile.record_bytes);
  const double side = root + 3 * profile.record_bytes_stdev / root;
  const double row = 2 * static_cast<double>(NominalRowBytes(profile.columns));
  const double samples =
      static_cast<double>(profile.num_files_train) * static_cast<double>(profile.num_samples_per_file);
  return samples * std::max(side * side, row);
}

}  // namespace

Status CheckProfile(const Profile& profile) {
  const std::string where = profile.workload + " " + std::string(Name(profile.edition));
  if (!profile.format) return Status(Code::kInvalidArgument, where + ": dataset.format is missing");
  if (profile.num_files_train == 0) {
    return Status(Code::kInvalidArgument, where + ": dataset.num_files_train is missing");
  }
  if (profile.record_bytes < 1) {
    return Status(Code::kInvalidArgument, where + ": dataset.record_length_bytes is missing");
  }
  if (profile.computation_time <= 0) {
    return Status(Code::kInvalidArgument, where + ": train.computation_time is missing");
  }
  if (profile.record_bytes_stdev > profile.record_bytes) {
    char text[128];
    std::snprintf(text, sizeof text,
                  ": dataset.record_length_bytes_stdev: %.0f is more than dataset.record_length_bytes (%.0f)",
                  profile.record_bytes_stdev, profile.record_bytes);
    return Status(Code::kInvalidArgument,
                  where + text + "; sizes would spread from nothing to many times it: set both");
  }
  if (const double bytes = MostDatasetBytes(profile); bytes > kMostDatasetBytes) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", bytes);
    return Status(Code::kInvalidArgument,
                  where + ": dataset: the files may have " + text +
                      " bytes in all, more than any file system holds; check dataset.num_files_train, "
                      ".num_samples_per_file, .record_length_bytes and its _stdev, .parquet.columns");
  }
  if (profile.format == Format::kJpeg && profile.num_samples_per_file != 1) {
    return Status(Code::kInvalidArgument,
                  where + ": dataset.num_samples_per_file: a jpeg file holds one sample, not " +
                      std::to_string(profile.num_samples_per_file));
  }
  if (profile.format == Format::kParquet) {
    const uint64_t groups = (profile.num_samples_per_file - 1) / profile.row_group_rows + 1;
    const uint64_t chunks = groups * std::max<uint64_t>(1, profile.columns.size());
    if (chunks > kMostChunks) {
      return Status(Code::kInvalidArgument,
                    where + ": dataset.parquet.row_group_size: " + std::to_string(profile.row_group_rows) +
                        " rows make " + std::to_string(chunks) + " column chunks in a file, more than " +
                        std::to_string(kMostChunks) + "; use larger row groups");
    }
    if (profile.columns.empty() && profile.record_bytes > kMostColumnBytes) {
      return Status(Code::kInvalidArgument,
                    where + ": dataset.record_length_bytes: a parquet row of more than " +
                        Number(kMostColumnBytes) + " bytes needs dataset.parquet.columns");
    }
  }
  return Status::Ok();
}

}  // namespace stoker::bench
