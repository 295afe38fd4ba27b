#include "coordinator/metadata/sqlite_metadata.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <functional>
#include <mutex>

#include "runtime/thread.h"

namespace ramcloud {
namespace {

/// Marks our files ("RAMC"), so that our tables are not created in another program's database.
constexpr int kApplicationId = 0x52414d43;

/// A prepared statement, used once and finalized.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr);  // an error leaves null, which step()
                                                            // reports
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& text(int index, const std::string& value) {
    sqlite3_bind_text(statement_, index, value.data(), static_cast<int>(value.size()),
                      SQLITE_STATIC);
    return *this;
  }
  Statement& blob(int index, const std::string& value) {
    sqlite3_bind_blob(statement_, index, value.data(), static_cast<int>(value.size()),
                      SQLITE_STATIC);
    return *this;
  }
  Statement& integer_value(int index, uint64_t value) {
    sqlite3_bind_int64(statement_, index, static_cast<sqlite3_int64>(value));
    return *this;
  }
  int step() { return statement_ == nullptr ? SQLITE_ERROR : sqlite3_step(statement_); }
  std::string column(int index) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, index));
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, index));
    return bytes == nullptr ? std::string() : std::string(bytes, size);
  }
  int64_t integer(int index) { return sqlite3_column_int64(statement_, index); }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

StatusCode status_code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return StatusCode::kUnavailable;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return StatusCode::kCorrupt;
    case SQLITE_FULL:
      return StatusCode::kNoSpace;
    default:
      return StatusCode::kIoError;
  }
}

/// The identity of the file behind a path.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Identity&) const = default;
};
std::optional<Identity> identity_of(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return Identity{found.st_dev, found.st_ino};
}

}  // namespace

// ---- the database, blocking; one thread at a time -----------------------------------------------

class SqliteMetadata::Database {
 public:
  ~Database() { sqlite3_close(db_); }

  Status open(const std::string& path) {
    path_ = path;
    constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    // SQLite would not treat ":memory:" and "file:…" as file names.
    const std::string file = path.starts_with('/') ? path : "./" + path;
    const int code = sqlite3_open_v2(file.c_str(), &db_, kFlags, nullptr);
    if (code != SQLITE_OK) return error(code);
    // EXCLUSIVE keeps the lock until close: two coordinators never share one file.
    RC_RETURN_IF_ERROR(run("PRAGMA locking_mode=EXCLUSIVE"));
    RC_RETURN_IF_ERROR(run("PRAGMA journal_mode=WAL"));
    RC_RETURN_IF_ERROR(run("PRAGMA synchronous=FULL"));
    RC_RETURN_IF_ERROR(check_application());
    RC_RETURN_IF_ERROR(run(fmt::format("PRAGMA application_id={}", kApplicationId)));
    RC_RETURN_IF_ERROR(
        run("CREATE TABLE IF NOT EXISTS metadata (key TEXT PRIMARY KEY, value BLOB NOT NULL) "
            "WITHOUT ROWID"));
    RC_RETURN_IF_ERROR(
        run("CREATE TABLE IF NOT EXISTS leader (number INTEGER PRIMARY KEY, record BLOB)"));
    for (const char* suffix : {"", "-wal"})
      files_.emplace_back(file + suffix, identity_of(file + suffix));
    return {};
  }

  Result<Leadership> campaign(const std::string& record) {
    if (Status begun = run("BEGIN IMMEDIATE"); !begun.ok()) return fail(std::move(begun));
    auto number = raise_leadership(record);
    if (!number) {
      (void)run("ROLLBACK");
      return fail(std::move(number.error()));
    }
    if (Status done = run("COMMIT"); !done.ok()) {
      (void)run("ROLLBACK");
      return fail(std::move(done));
    }
    return Leadership{*number, record};
  }

  Result<Records> load(const std::string& prefix) {
    Records records;
    Statement select(db_, "SELECT key, value FROM metadata WHERE substr(key, 1, length(?1)) = ?1");
    select.text(1, prefix);
    int code;
    while ((code = select.step()) == SQLITE_ROW) {
      records.emplace(select.column(0), select.column(1));
    }
    if (code != SQLITE_DONE) return fail(error(code));
    return records;
  }

  CommitResult commit(const MetadataTransaction& transaction) {
    if (Status there = check_files(); !there.ok()) return unknown(there);
    if (Status begun = run("BEGIN IMMEDIATE"); !begun.ok()) return unknown(begun);
    const auto applied = apply(transaction);
    if (!applied || !*applied) {
      const Status undone = run("ROLLBACK");
      if (!applied) return unknown(applied.error());
      if (!undone.ok()) return unknown(undone);
      return {CommitOutcome::kConditionFailed, {}};
    }
    // If COMMIT itself fails, the transaction may or may not have reached the device.
    if (Status done = run("COMMIT"); !done.ok()) {
      (void)run("ROLLBACK");  // fails if the transaction has ended, which is fine
      return unknown(done);
    }
    return {CommitOutcome::kCommitted, {}};
  }

 private:
  static CommitResult unknown(const Status& status) {
    return {CommitOutcome::kUnknown, status.to_string()};
  }

  /// Records in a deleted file are lost when this process ends.
  Status check_files() const {
    for (const auto& [name, opened] : files_) {
      if (identity_of(name) == opened) continue;
      return {StatusCode::kIoError,
              fmt::format(
                  "metadata file '{}' was deleted or replaced since it was opened: nothing more is "
                  "written to it; until this process ends, it can be copied from /proc/{}/fd",
                  name, ::getpid())};
    }
    return {};
  }

  Result<uint64_t> leadership() {
    Statement select(db_, "SELECT max(number) FROM leader");
    if (const int code = select.step(); code != SQLITE_ROW) return fail(error(code));
    return static_cast<uint64_t>(select.integer(0));
  }

  Result<uint64_t> raise_leadership(const std::string& record) {
    const auto former = leadership();
    if (!former) return former;
    Statement remove(db_, "DELETE FROM leader");
    if (const int code = remove.step(); code != SQLITE_DONE) return fail(error(code));
    Statement insert(db_, "INSERT INTO leader (number, record) VALUES (?1, ?2)");
    const int code = insert.integer_value(1, *former + 1).blob(2, record).step();
    if (code != SQLITE_DONE) return fail(error(code));
    return *former + 1;
  }

  /// True: all conditions hold, everything is written (not yet committed).
  Result<bool> apply(const MetadataTransaction& transaction) {
    if (transaction.leadership) {
      const auto present = leadership();
      if (!present) return fail(present.error());
      if (*transaction.leadership == 0 || *present != *transaction.leadership) return false;
    }
    for (const auto& condition : transaction.conditions) {
      Statement select(db_, "SELECT value FROM metadata WHERE key = ?1");
      const int code = select.text(1, condition.key).step();
      if (code != SQLITE_ROW && code != SQLITE_DONE) return fail(error(code));
      const bool present = code == SQLITE_ROW;
      if (present != condition.value.has_value()) return false;
      if (present && select.column(0) != *condition.value) return false;
    }
    for (const auto& [key, value] : transaction.puts) {
      Statement put(db_, "INSERT OR REPLACE INTO metadata (key, value) VALUES (?1, ?2)");
      const int code = put.text(1, key).blob(2, value).step();
      if (code != SQLITE_DONE) return fail(error(code));
    }
    for (const auto& key : transaction.deletes) {
      Statement remove(db_, "DELETE FROM metadata WHERE key = ?1");
      const int code = remove.text(1, key).step();
      if (code != SQLITE_DONE) return fail(error(code));
    }
    return true;
  }

  Status check_application() {
    Statement id(db_, "PRAGMA application_id");
    if (const int code = id.step(); code != SQLITE_ROW) return error(code);
    if (id.integer(0) == kApplicationId) return {};
    Statement objects(db_, "SELECT count(*) FROM sqlite_master");
    if (const int code = objects.step(); code != SQLITE_ROW) return error(code);
    if (objects.integer(0) == 0) return {};  // just created
    return {StatusCode::kCorrupt,
            fmt::format("metadata file '{}' is a database of another program", path_)};
  }

  Status run(const std::string& sql) {
    const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
    return code == SQLITE_OK ? Status() : error(code);
  }

  Status error(int code) const {
    const StatusCode status = status_code_of(code);
    const char* what = db_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db_);
    if (status == StatusCode::kUnavailable) what = "it is in use by another process";
    return {status, fmt::format("metadata file '{}': {}", path_, what)};
  }

  std::string path_;
  std::vector<std::pair<std::string, std::optional<Identity>>> files_;  // identities when they were
                                                                        // opened
  sqlite3* db_ = nullptr;
};

// ---- the thread ---------------------------------------------------------------------------------

class SqliteMetadata::Worker {
 public:
  explicit Worker(Reactor& reactor) : reactor_(reactor), thread_("metadata", [this] { run(); }) {}

  ~Worker() {
    {
      const std::lock_guard guard(mutex_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  /// `co_await worker.run_there<T>(fn)`: runs fn on the thread, in the order of the calls.
  template <typename T>
  auto run_there(std::function<T()> fn) {
    return Awaiter<T>(*this, std::move(fn));
  }

 private:
  template <typename T>
  struct Job {
    std::function<T()> fn;
    std::optional<T> result;
    std::coroutine_handle<> waiting;  // reactor's thread; null if no task waits
  };

  template <typename T>
  class Awaiter {
   public:
    Awaiter(Worker& worker, std::function<T()> fn)
        : worker_(worker), job_(std::make_shared<Job<T>>(std::move(fn))) {}
    ~Awaiter() { job_->waiting = {}; }
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
      job_->waiting = handle;
      worker_.enqueue([&reactor = worker_.reactor_, job = job_]() mutable {
        job->result.emplace(job->fn());
        reactor.post([job = std::move(job)] {
          if (job->waiting) job->waiting.resume();
        });
      });
    }
    T await_resume() { return std::move(*job_->result); }

   private:
    Worker& worker_;
    std::shared_ptr<Job<T>> job_;
  };

  void enqueue(std::function<void()> work) {
    {
      const std::lock_guard guard(mutex_);
      queue_.push_back(std::move(work));
    }
    wake_.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
    }
  }

  Reactor& reactor_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_, as is stop_
  bool stop_ = false;
  Thread thread_;  // last member: starts when the others are constructed
};

// ---- SqliteMetadata

SqliteMetadata::SqliteMetadata(Reactor& reactor, std::unique_ptr<Database> database)
    : reactor_(reactor),
      database_(std::move(database)),
      worker_(std::make_unique<Worker>(reactor)) {}

SqliteMetadata::~SqliteMetadata() = default;

Result<std::unique_ptr<SqliteMetadata>> SqliteMetadata::open(Reactor& reactor,
                                                             const std::string& path) {
  auto database = std::make_unique<Database>();
  if (Status opened = database->open(path); !opened.ok()) return fail(std::move(opened));
  return std::unique_ptr<SqliteMetadata>(new SqliteMetadata(reactor, std::move(database)));
}

Task<Result<MetadataStore::Records>> SqliteMetadata::load(std::string prefix) {
  std::function<Result<Records>()> work = [db = database_.get(), prefix = std::move(prefix)] {
    return db->load(prefix);
  };
  co_return co_await worker_->run_there<Result<Records>>(std::move(work));
}

Task<CommitResult> SqliteMetadata::commit(MetadataTransaction transaction) {
  std::function<CommitResult()> work = [db = database_.get(), t = std::move(transaction)] {
    return db->commit(t);
  };
  co_return co_await worker_->run_there<CommitResult>(std::move(work));
}

Task<Result<Leadership>> SqliteMetadata::campaign(std::string record) {
  leading_ = 0;
  std::function<Result<Leadership>()> work = [db = database_.get(), record = std::move(record)] {
    return db->campaign(record);
  };
  auto leader = co_await worker_->run_there<Result<Leadership>>(std::move(work));
  if (leader) leading_ = leader->number;
  co_return leader;
}

/// Never returns: nobody else can lead while this process has the file open.
Task<void> SqliteMetadata::wait_for_change(uint64_t) {
  if (leading_ == 0) co_return;
  Event never(reactor_);
  co_await never;
}

Task<void> SqliteMetadata::resign() {
  leading_ = 0;
  co_return;
}

}  // namespace ramcloud
