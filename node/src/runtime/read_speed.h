// How fast a device reads, measured once at a server's start: placement prefers backups that can
// read their replicas back soonest [Ousterhout15 §7.1].
#pragma once

#include <cstdint>
#include <string>

namespace ramcloud {

/// Bytes a second of sequential reading past the page cache: from a nameless file that is written
/// into the directory for that, or from the beginning of the block device, which is not changed. 0:
/// not possible there (the file system is full, or does not support reading past the cache).
uint64_t measure_device_read_speed(const std::string& path, bool is_device);

}  // namespace ramcloud
