#pragma once

#include <string_view>

namespace stoker::bench {

/// The page's style sheet: light and dark by the reader's setting, one column on a phone, nothing fetched.
std::string_view HtmlStyle();

}  // namespace stoker::bench
