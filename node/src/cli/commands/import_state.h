// How far an import is, in a file of its own (`ramcloud import --resume FILE`): a later run goes on
// where everything before is acknowledged.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/formats/record_source.h"

namespace ramcloud::cli {

/// The longest prefix of the input whose records are all acknowledged, while many are in flight.
class AckedPrefix {
 public:
  explicit AckedPrefix(const FilePosition& begin) : acked_(begin) {}
  /// A record was read; the position is behind it. Gives what to call done() with.
  uint64_t started(const FilePosition& end);
  void done(uint64_t ticket);
  const FilePosition& acked() const { return acked_; }
  uint64_t records() const { return records_; }  // in it, since the begin

 private:
  struct Entry {
    FilePosition end;
    bool done = false;
  };
  std::deque<Entry> under_way_;
  uint64_t first_ = 0;  // ticket of the front
  uint64_t records_ = 0;
  FilePosition acked_;
};

/// What an import was begun with; a later run must have the same.
struct ImportIdentity {
  std::string file;         // its path, for people
  uint64_t file_bytes = 0;  // its size
  std::string cluster;      // uuid
  std::string table;        // name
  uint64_t table_id = 0;    // a table that was dropped and re-created has another
  std::string format;       // "jsonl", or "csv" with its columns
};

struct ImportState {
  ImportIdentity identity;
  FilePosition acked;        // everything before is acknowledged
  uint64_t prefix_hash = 0;  // of the file's begin and of what stands before that
  uint64_t imported = 0;     // objects, of all runs
  bool whole = false;        // the file was imported to its end
};

/// Fills in the fields that come from the file itself. IO_ERROR; INVALID_ARGUMENT: not a plain
/// file.
Status identify_file(const std::string& path, ImportIdentity& identity);
/// Tells one file from another by what was imported of it: a hash of up to 64 KiB at its begin and
/// of as many before the offset. What stands behind may be mended between two runs.
Result<uint64_t> prefix_hash(const std::string& path, uint64_t offset);

/// Nothing if there is no such file. INVALID_ARGUMENT: it is not what save_state() writes.
Result<std::optional<ImportState>> load_state(const std::string& path);
/// Replaces the file as a whole: at any moment there is the old one or the new one, on the disk.
Status save_state(const std::string& path, const ImportState& state);
/// INVALID_ARGUMENT: the import is another one; the message says in what.
Status check_same_import(const ImportState& state, const ImportIdentity& now);

}  // namespace ramcloud::cli
