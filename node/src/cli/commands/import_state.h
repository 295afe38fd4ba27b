// The progress of an import in a file (`ramcloud import --resume FILE`): a later run continues
// after the last position before which everything is acknowledged.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/formats/record_source.h"

namespace ramcloud::cli {

/// Tracks the longest prefix of the input whose records are all acknowledged, with many records in
/// flight.
class AckedPrefix {
 public:
  explicit AckedPrefix(const FilePosition& begin) : acked_(begin) {}
  /// A record was read; `end` is the position after it. Returns the ticket for done().
  uint64_t started(const FilePosition& end);
  void done(uint64_t ticket);
  const FilePosition& acked() const { return acked_; }
  uint64_t records() const { return records_; }  // records in the prefix

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

/// Identifies an import; a later run must have the same values.
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
  uint64_t prefix_hash = 0;  // hash of the file's first bytes and of the bytes before `acked`
  uint64_t imported = 0;     // objects imported by all runs
  bool whole = false;        // the file was imported to its end
};

/// Fills in the fields about the file. IO_ERROR; INVALID_ARGUMENT: not a plain file.
Status identify_file(const std::string& path, ImportIdentity& identity);
/// Recognises a file by its imported part: a hash of up to 64 KiB at its beginning and up to 64 KiB
/// before the offset. The rest of the file may be changed between two runs.
Result<uint64_t> prefix_hash(const std::string& path, uint64_t offset);

/// None if there is no such file. INVALID_ARGUMENT: it was not written by save_state().
Result<std::optional<ImportState>> load_state(const std::string& path);
/// Replaces the file atomically: the disk always has the old one or the new one.
Status save_state(const std::string& path, const ImportState& state);
/// INVALID_ARGUMENT: it is another import; the message names the difference.
Status check_same_import(const ImportState& state, const ImportIdentity& now);

}  // namespace ramcloud::cli
