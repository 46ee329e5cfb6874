#include "workload/io/task_record.h"

#include <nlohmann/json.hpp>

namespace stoker::bench {
namespace {

using Json = nlohmann::json;

Json ToJson(const TaskRecord& task) {
  return Json::array({task.open_begin, task.open_end, task.transfer_begin, task.transfer_end,
                      task.close_begin, task.close_end, task.stonewall_end, task.done, task.stonewall_done,
                      task.wrong, task.first_wrong, static_cast<int>(task.failure.code()),
                      task.failure.message(), task.failure.os_errno()});
}

TaskRecord FromJson(const Json& json) {
  TaskRecord task;
  size_t next = 0;
  for (double* time : {&task.open_begin, &task.open_end, &task.transfer_begin, &task.transfer_end,
                       &task.close_begin, &task.close_end, &task.stonewall_end}) {
    *time = json.at(next++);
  }
  for (uint64_t* count : {&task.done, &task.stonewall_done, &task.wrong}) *count = json.at(next++);
  task.first_wrong = json.at(next++);
  const Code code = static_cast<Code>(json.at(next).get<int>());
  if (code != Code::kOk) task.failure = Status(code, json.at(next + 1), json.at(next + 2));
  return task;
}

}  // namespace

std::string PackRecord(const ProcessRecord& record) {
  Json tasks = Json::array();
  for (const TaskRecord& task : record.tasks) tasks.push_back(ToJson(task));
  // Paths in messages need not be UTF-8.
  return Json{{"tasks", tasks}, {"cpu_s", record.cpu_s}, {"interrupted", record.interrupted}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

Result<ProcessRecord> JoinRecords(const std::vector<std::string>& texts) {
  ProcessRecord all;
  try {
    for (const std::string& text : texts) {
      const Json json = Json::parse(text);
      for (const Json& task : json.at("tasks")) all.tasks.push_back(FromJson(task));
      all.cpu_s += json.at("cpu_s").get<double>();
      all.interrupted = all.interrupted || json.at("interrupted").get<bool>();
    }
  } catch (const Json::exception& error) {
    return Status(Code::kCorruption,
                  std::string("a process sent something else than its times: ") + error.what());
  }
  return all;
}

}  // namespace stoker::bench
