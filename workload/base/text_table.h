#pragma once

#include <string>
#include <vector>

namespace stoker::bench {

struct TableStyle {
  size_t indent = 0;          // spaces before each line
  size_t gap = 2;             // spaces between columns
  bool numbers_right = true;  // all columns but the first are aligned to the right; else all to the left
};

/// Columns under each other, no spaces at a line's end. Widths are counted in
/// characters of UTF-8. Rows may be of different lengths. Pure.
std::string TextTable(const std::vector<std::vector<std::string>>& rows, const TableStyle& style = {});

}  // namespace stoker::bench
