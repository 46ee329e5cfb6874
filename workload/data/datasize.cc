#include "workload/data/datasize.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "cache/base/units.h"

namespace stoker::bench {
namespace {

constexpr uint64_t kMostFiles = std::numeric_limits<uint32_t>::max();  // as dataset.num_files_train
constexpr double kMostSamples = 1e15;         // what is beyond would leave the range of the counts
constexpr double kMemoryFactor = 5;           // the dataset is at least five times the clients' memory
constexpr uint64_t kFilesPerFolder = 10'000;  // above this v2.0 and later suggest subfolders

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

uint64_t StepsPerEpoch(Edition formula) {
  return formula == Edition::kV05 ? 100 : 500;
}

DatasizeInput MakeDatasizeInput(const Profile& profile, Edition formula, uint64_t accelerators,
                                double host_memory_gb) {
  DatasizeInput input;
  input.formula = formula;
  input.accelerators = accelerators;
  input.host_memory_gb = host_memory_gb;
  input.samples_per_file = profile.num_samples_per_file;
  input.record_bytes = profile.record_bytes;
  input.batch_size = profile.batch_size;
  input.computation_time = profile.computation_time;
  input.epochs = profile.epochs;
  if (formula == Edition::kV05) input.steps = profile.total_training_steps;
  return input;
}

Datasize ComputeDatasize(const DatasizeInput& input) {
  const double gib = static_cast<double>(kGiB);
  const uint64_t steps = input.steps != 0 ? input.steps : StepsPerEpoch(input.formula);
  const uint64_t hosts = input.formula == Edition::kV05 ? 1 : input.client_hosts;
  double memory_gb = input.host_memory_gb;
  if (input.formula == Edition::kV30) memory_gb = std::max(memory_gb, input.measured_memory_gb);
  const double memory_samples = std::min(
      memory_gb * static_cast<double>(hosts) * kMemoryFactor * gib / input.record_bytes, kMostSamples);

  Datasize out;
  out.samples_by_steps =
      static_cast<uint64_t>(std::min(static_cast<double>(steps) * static_cast<double>(input.batch_size) *
                                         static_cast<double>(input.accelerators),
                                     kMostSamples));
  if (input.formula == Edition::kV30) {
    out.samples_by_memory = static_cast<uint64_t>(std::ceil(memory_samples));
    const double per_file = static_cast<double>(input.samples_per_file);
    out.files = std::max(static_cast<uint64_t>(std::ceil(memory_samples / per_file)),
                         CeilDiv(out.samples_by_steps, input.samples_per_file));
  } else {
    out.samples_by_memory = static_cast<uint64_t>(memory_samples);
    out.files = std::max(out.samples_by_memory, out.samples_by_steps) / input.samples_per_file;
  }
  out.files = std::max<uint64_t>(1, out.files);  // fewer samples than one file holds
  // v0.5 and v1.0 print the size of the samples asked for, later editions that of the files.
  const bool by_samples = input.formula == Edition::kV05 || input.formula == Edition::kV10;
  const uint64_t samples =
      by_samples ? std::max(out.samples_by_memory, out.samples_by_steps) : out.files * input.samples_per_file;
  out.gigabytes = static_cast<double>(samples) * input.record_bytes / gib;
  out.minutes = static_cast<double>(samples) / static_cast<double>(input.batch_size) /
                static_cast<double>(input.accelerators) * input.computation_time *
                static_cast<double>(input.epochs) / 60;
  if (!by_samples && out.files > kFilesPerFolder) out.subfolders = out.files / kFilesPerFolder;
  return out;
}

Status CheckDatasize(const Datasize& size) {
  if (size.files <= kMostFiles && static_cast<double>(size.samples_by_steps) < kMostSamples &&
      static_cast<double>(size.samples_by_memory) < kMostSamples) {
    return Status::Ok();
  }
  return {Code::kInvalidArgument,
          "dataset.num_files_train: the dataset would need " + Text("%.3g", static_cast<double>(size.files)) +
              " files or more, and can have " + std::to_string(kMostFiles) +
              "; check --num-accelerators, --host-memory-in-gb, --num-client-hosts, reader.batch_size, "
              "dataset.record_length_bytes and dataset.num_samples_per_file"};
}

std::string DatasizeText(const DatasizeInput& input, const Datasize& size, const Profile& profile) {
  const bool memory_decides = size.samples_by_memory > size.samples_by_steps;
  const uint64_t steps = input.steps != 0 ? input.steps : StepsPerEpoch(input.formula);
  std::string out;
  out += profile.workload + " " + std::string(Name(input.formula)) + ": " +
         std::to_string(input.accelerators) + " x " + profile.accelerator + ", ";
  const uint64_t hosts = input.formula == Edition::kV05 ? 1 : input.client_hosts;
  out += std::to_string(hosts) + (hosts == 1 ? " host" : " hosts") + " with " +
         Text("%g", input.host_memory_gb) + " GB of memory" + (hosts == 1 ? "" : " each") + "\n";
  if (input.formula == Edition::kV30 && input.measured_memory_gb > input.host_memory_gb) {
    out += "This host has " + Text("%.2f", input.measured_memory_gb) +
           " GB of memory, more than declared: counted with that\n";
  }
  out += "Best possible duration: " + Text("%.0f", std::floor(size.minutes)) + " minutes (" +
         std::to_string(input.epochs) + (input.epochs == 1 ? " epoch" : " epochs") +
         ", accelerators never waiting)\n";
  out += "Smallest dataset: " + std::to_string(size.files) + " files, " +
         Text("%.0f", std::floor(size.gigabytes)) + " GB (" + Text("%.2f", size.gigabytes) + " GiB)\n";
  out += "Decided by: " +
         (memory_decides
              ? "5 times the memory of the hosts (" + std::to_string(size.samples_by_memory) + " samples; " +
                    std::to_string(steps) + " steps need " + std::to_string(size.samples_by_steps) + ")"
              : std::to_string(steps) + " steps an epoch (" + std::to_string(size.samples_by_steps) +
                    " samples; 5 times the memory is " + std::to_string(size.samples_by_memory) + ")") +
         "\n";
  if (size.subfolders > 1) {
    out += "With so many files, subfolders help: --param dataset.num_subfolders_train=" +
           std::to_string(size.subfolders) + "\n";
  }
  out += "Give this to datagen and run: --param dataset.num_files_train=" + std::to_string(size.files) + "\n";
  return out;
}

}  // namespace stoker::bench
