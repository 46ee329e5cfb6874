#include "fuse/path_rules.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "cache/base/spelling.h"

namespace stoker {
namespace {

constexpr size_t kMaxGlobBytes = 4096;
constexpr std::array<std::pair<PathClass, std::string_view>, 3> kClasses{{
    {PathClass::kImmutable, "immutable"},
    {PathClass::kRevalidate, "revalidate"},
    {PathClass::kSkip, "skip"},
}};

Status Invalid(std::string_view glob, const std::string& why) {
  return {Code::kInvalidArgument, "'" + std::string(glob) + "' " + why};
}

/// Length of the set that begins at glob[0] == '[', 0 when it has no end.
size_t SetLength(std::string_view glob) {
  size_t i = 1;
  if (i < glob.size() && glob[i] == '!') ++i;
  if (i < glob.size() && glob[i] == ']') ++i;  // first in the set: itself
  while (i < glob.size() && glob[i] != ']' && glob[i] != '/') ++i;
  return i < glob.size() && glob[i] == ']' ? i + 1 : 0;
}

bool InSet(std::string_view set, char c) {
  std::string_view items = set.substr(1, set.size() - 2);
  const bool negated = !items.empty() && items.front() == '!';
  if (negated) items.remove_prefix(1);
  const auto byte = [](char x) { return static_cast<unsigned char>(x); };
  bool found = false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i + 2 < items.size() && items[i + 1] == '-') {
      found |= byte(items[i]) <= byte(c) && byte(c) <= byte(items[i + 2]);
      i += 2;
    } else {
      found |= items[i] == c;
    }
  }
  return found != negated;
}

/// One name without '/'. Goes back to the last '*' only, so it is never exponential.
bool NameFits(std::string_view glob, std::string_view name) {
  size_t g = 0;
  size_t n = 0;
  size_t star = std::string_view::npos;
  size_t star_name = 0;
  while (n < name.size()) {
    size_t step = 0;  // of the glob, when it fits this character
    if (g < glob.size()) {
      const char c = glob[g];
      if (c == '*') {
        star = g++;
        star_name = n;
        continue;
      }
      if (c == '?') {
        step = 1;
      } else if (c == '[') {
        const size_t length = SetLength(glob.substr(g));
        if (length != 0 && InSet(glob.substr(g, length), name[n])) step = length;
      } else if (c == '\\' && g + 1 < glob.size()) {
        if (glob[g + 1] == name[n]) step = 2;
      } else if (c == name[n]) {
        step = 1;
      }
    }
    if (step != 0) {
      g += step;
      ++n;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

/// Takes the first component off; false when there is none left.
bool TakeName(std::string_view& rest, std::string_view& name) {
  if (rest.data() == nullptr) return false;
  const size_t slash = rest.find('/');
  name = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return true;
}

}  // namespace

bool GlobFits(std::string_view glob, std::string_view path) {
  if (glob == "**") return true;
  if (path.empty()) return false;
  if (glob.find('/') == std::string_view::npos) {
    const size_t slash = path.rfind('/');
    return NameFits(glob, slash == std::string_view::npos ? path : path.substr(slash + 1));
  }
  if (glob.front() == '/') glob.remove_prefix(1);
  // The same walk as for one name, over components: `**` is their '*'.
  std::string_view after_stars;  // of the glob, behind the last "**"
  std::string_view retry;        // of the path, what that one has not swallowed yet
  bool have_stars = false;
  while (path.data() != nullptr) {
    std::string_view glob_rest = glob;
    std::string_view path_rest = path;
    std::string_view pattern;
    std::string_view name;
    if (TakeName(glob_rest, pattern)) {
      if (pattern == "**") {
        if (glob_rest.data() == nullptr) return true;  // at the end: whatever is left, and something is
        have_stars = true;
        glob = after_stars = glob_rest;
        retry = path;
        continue;
      }
      TakeName(path_rest, name);
      if (NameFits(pattern, name)) {
        glob = glob_rest;
        path = path_rest;
        continue;
      }
    }
    if (!have_stars) return false;
    TakeName(retry, name);
    path = retry;
    glob = after_stars;
  }
  return glob.data() == nullptr;
}

Status CheckGlob(std::string_view glob) {
  if (glob.empty()) return Invalid(glob, "is empty: write a path glob, e.g. train/** or *.tmp");
  if (glob.size() > kMaxGlobBytes) {
    return {Code::kInvalidArgument, "the glob has " + std::to_string(glob.size()) + " bytes, at most " +
                                        std::to_string(kMaxGlobBytes) + " are taken: shorten it"};
  }
  if (glob.find('\0') != std::string_view::npos) return Invalid(glob, "holds a NUL byte, which no path has");
  if (glob == "/") return Invalid(glob, "fits nothing: write ** for everything");
  if (glob.back() == '/') {
    return Invalid(glob, "ends with / and fits nothing: write " + std::string(glob) + "** for what is below");
  }
  if (glob.back() == '\\' && (glob.size() < 2 || glob[glob.size() - 2] != '\\')) {
    return Invalid(glob, "ends with \\ that takes the next character: write \\\\ for a backslash");
  }
  std::string_view rest = glob.front() == '/' ? glob.substr(1) : glob;
  std::string_view name;
  while (TakeName(rest, name)) {
    if (name.empty()) return Invalid(glob, "holds // and fits nothing: write one /");
    if (name == "." || name == "..") {
      return Invalid(
          glob, "holds " + std::string(name) + " and fits nothing: write the path below the mount point");
    }
    if (name != "**" && name.find("**") != std::string_view::npos) {
      return Invalid(glob, "holds ** beside other characters: let ** stand between slashes, or write *");
    }
    for (size_t i = 0; i < name.size(); ++i) {
      if (name[i] == '\\') {
        ++i;
      } else if (name[i] == '[') {
        const size_t length = SetLength(name.substr(i));
        if (length == 0) return Invalid(glob, "has [ without ]: close it, or write \\[");
        i += length - 1;
      }
    }
  }
  return Status::Ok();
}

std::string_view PathClassName(PathClass path_class) {
  for (const auto& [known, name] : kClasses) {
    if (known == path_class) return name;
  }
  return "";
}

Result<PathClass> ParsePathClass(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, text] : kClasses) {
    if (text == name) return known;
    names.emplace_back(text);
  }
  const std::string nearest = NearestSpelling(name, names);
  return Status(Code::kInvalidArgument, "'" + std::string(name) + "' is not a class: " +
                                            (nearest.empty() ? "use immutable, revalidate or skip"
                                                             : "did you mean '" + nearest + "'?"));
}

const PathRule* FindRule(const std::vector<PathRule>& rules, std::string_view path) {
  for (const PathRule& rule : rules) {
    if (GlobFits(rule.glob, path)) return &rule;
  }
  return nullptr;
}

}  // namespace stoker
