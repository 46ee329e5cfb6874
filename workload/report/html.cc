#include "workload/report/html.h"

#include <cmath>
#include <cstdint>

#include "cache/base/units.h"
#include "workload/base/console.h"

namespace stoker::bench {
namespace {

constexpr char kNarrowSpace[] = "\u202f";
constexpr char kReplacement[] = "\ufffd";

/// Length of the well-formed UTF-8 sequence that `text` begins with; 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t length = 0;
  uint32_t code = 0;
  uint32_t least = 0;
  if ((first & 0xe0) == 0xc0) {
    length = 2, code = first & 0x1f, least = 0x80;
  } else if ((first & 0xf0) == 0xe0) {
    length = 3, code = first & 0x0f, least = 0x800;
  } else if ((first & 0xf8) == 0xf0) {
    length = 4, code = first & 0x07, least = 0x10000;
  } else {
    return 0;
  }
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least || code > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) {
      out += kReplacement;
      text.remove_prefix(1);
      continue;
    }
    const char c = text.front();
    if (length > 1) {
      out.append(text.substr(0, length));
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (static_cast<uint8_t>(c) >= 0x20 && c != 0x7f) {
      out += c;
    } else if (c == '\n' || c == '\t') {
      out += ' ';
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string Num(double value, int decimals) {
  if (!std::isfinite(value)) return "–";
  const std::string plain = Text(("%." + std::to_string(decimals) + "f").c_str(), std::fabs(value));
  const size_t whole = plain.find('.') == std::string::npos ? plain.size() : plain.find('.');
  const bool zero = plain.find_first_not_of("0.") == std::string::npos;
  std::string out = value < 0 && !zero ? "−" : "";
  for (size_t i = 0; i < plain.size(); ++i) {
    if (i > 0 && i < whole && whole > 4 && (whole - i) % 3 == 0) out += kNarrowSpace;
    out += plain[i];
  }
  return out;
}

std::string Micros(double micros) {
  if (!std::isfinite(micros)) return "–";
  double value = micros;
  const char* unit = "µs";
  if (micros >= 999'500) {
    value = micros / 1e6;
    unit = "s";
  } else if (micros >= 999.5) {
    value = micros / 1e3;
    unit = "ms";
  }
  return Num(value, value >= 99.95 || value == std::floor(value) ? 0 : value >= 9.995 ? 1 : 2) + " " + unit;
}

std::string Mebi(double bytes_per_s) {
  return Num(bytes_per_s / static_cast<double>(kMiB)) + " MiB/s";
}

std::string Share(double share) {
  return Num(100 * share) + " %";
}

std::string HtmlTable(const std::vector<std::vector<std::string>>& rows, std::string_view caption) {
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" +
                    EscapeHtml(caption) + "\"><table><caption>" + EscapeHtml(caption) + "</caption>\n";
  for (size_t r = 0; r < rows.size(); ++r) {
    out += r == 0 ? "<thead><tr>" : r == 1 ? "<tbody><tr>" : "<tr>";
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (r == 0) {
        out += "<th scope=\"col\">" + rows[r][c] + "</th>";
      } else if (c == 0) {
        out += "<th scope=\"row\">" + rows[r][c] + "</th>";
      } else {
        out += "<td>" + rows[r][c] + "</td>";
      }
    }
    out += r == 0 ? "</tr></thead>\n" : "</tr>\n";
  }
  return out + (rows.size() > 1 ? "</tbody>" : "") + "</table></div>\n";
}

}  // namespace stoker::bench
