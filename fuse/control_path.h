#pragma once

#include <string>
#include <vector>

#include "cache/base/result.h"

namespace stoker {

/// A mount point as one file name: "/mnt/cache" → "mnt-cache". Other bytes than letters, digits, '.' and '_'
/// are written \xNN; long names are cut and get a hash. Two mount points never share a name.
std::string MountName(const std::string& mountpoint);

/// Directory of the sockets: /run/stoker for root, else $XDG_RUNTIME_DIR/stoker, else /tmp/stoker-UID.
std::string ControlDirectory();
/// Where the daemon of this mount point listens, or where a symlink says where it listens.
std::string ControlSocketPath(const std::string& mountpoint);
/// All sockets in the directory, sorted; some may be left over from daemons that died.
std::vector<std::string> ListControlSockets();

/// Log file of a background daemon: /var/log/stoker/NAME.log for root, else under $XDG_STATE_HOME or
/// ~/.local/state.
std::string DefaultLogFile(const std::string& mountpoint);

/// Makes the directory and its parents, new ones with `mode`. kPermissionDenied: it exists and belongs to
/// somebody else than us or root, who could put things in our way.
Status MakeOwnDirectory(const std::string& path, unsigned mode);

}  // namespace stoker
