#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker::bench {

/// `text` for an HTML text or a quoted attribute: nothing in it can become markup. Bytes that are not UTF-8
/// become U+FFFD, control characters are dropped. Every text that comes from a file goes through here. Pure.
std::string EscapeHtml(std::string_view text);

/// A number for people: "63 810.5", thousands apart by a narrow space; "–" when it is not finite.
std::string Num(double value, int decimals = 1);
/// A duration in microseconds with the unit that fits: "850 µs", "12.3 ms", "1.20 s".
std::string Micros(double micros);
/// Bytes for people, binary and decimal unit: "828.6 MiB".
std::string Mebi(double bytes_per_s);
/// A share 0..1 as "12.3 %".
std::string Share(double share);

/// A table in a box that scrolls sideways by itself. The first row is the head; cells are markup already. The
/// first column is its row's name.
std::string HtmlTable(const std::vector<std::vector<std::string>>& rows, std::string_view caption);

}  // namespace stoker::bench
