/* The C interface from C: that the header is C, and what the conformance file does not show (calls
 * that are outstanding, cancelled, outlive their client; scans). Called by c_api_test.cc, which
 * reports. */
#include <ramcloud/ramcloud_c.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      snprintf(where, where_size, "line %d: %s", __LINE__, #condition); \
      return 1;                                                         \
    }                                                                   \
  } while (0)

enum { kCalls = 100 };

static int write_all(ramcloud_client* client, uint64_t table, char* where, size_t where_size) {
  ramcloud_call* calls[kCalls];
  char key[16];
  for (int i = 0; i < kCalls; ++i) {
    const int size = snprintf(key, sizeof key, "key%d", i);
    calls[i] = ramcloud_write(client, table, key, (size_t)size, "value", 5, NULL, 0);
    CHECK(!ramcloud_done(calls[i]));
  }
  CHECK(ramcloud_next_done(client) == NULL);
  for (int i = 0; i < kCalls; ++i) ramcloud_wait(calls[i]);
  ramcloud_free(calls[0]); /* what is freed is not given */
  calls[0] = ramcloud_write(client, table, "key0", 4, "value", 5, NULL, 0);
  for (int i = 1; i < kCalls; ++i) {
    ramcloud_call* done = ramcloud_next_done(client);
    CHECK(done != NULL && done != calls[0] && ramcloud_done(done));
  }
  CHECK(ramcloud_next_done(client) == NULL); /* each is given once */
  ramcloud_cancel(calls[0]);
  CHECK(ramcloud_next_done(client) == calls[0] && ramcloud_next_done(client) == NULL);
  ramcloud_free(calls[0]);
  calls[0] = ramcloud_write(client, table, "key0", 4, "value", 5, NULL, 0);
  for (int i = kCalls - 1; i >= 0; --i) {
    const ramcloud_result* written = ramcloud_wait(calls[i]);
    CHECK(written->status == RAMCLOUD_OK && written->version > 0);
    CHECK(ramcloud_count(calls[i]) == 1 && ramcloud_at(calls[i], 0) == written);
    ramcloud_free(calls[i]);
  }
  return 0;
}

static int scan_all(ramcloud_client* client, uint64_t table, char* where, size_t where_size) {
  ramcloud_scan* scan = ramcloud_scan_begin(client, table, 0);
  size_t seen = 0;
  for (;;) {
    ramcloud_call* call = ramcloud_scan_next(scan, 60000);
    CHECK(ramcloud_wait(call)->status == RAMCLOUD_OK);
    const size_t count = ramcloud_count(call);
    for (size_t i = 0; i < count; ++i) {
      const ramcloud_result* object = ramcloud_at(call, i);
      CHECK(object->key_size >= 4 && memcmp(object->key, "key", 3) == 0);
      CHECK(object->value_size == 5 && memcmp(object->value, "value", 5) == 0);
    }
    ramcloud_free(call);
    if (count == 0) break;
    seen += count;
  }
  ramcloud_scan_end(scan);
  CHECK(seen == kCalls);
  return 0;
}

/* Options of a program that was built with another header. */
static int check_sizes(const char* cluster, char* where, size_t where_size) {
  struct {
    ramcloud_options known;
    int64_t later;
  } options = {RAMCLOUD_OPTIONS_INIT, 0};
  char message[200];
  options.known.size = sizeof options; /* a later header, whose field is not set */
  ramcloud_client* client = ramcloud_connect(cluster, &options.known, message, sizeof message);
  CHECK(client != NULL);
  ramcloud_close(client);
  options.later = 1;
  CHECK(ramcloud_connect(cluster, &options.known, message, sizeof message) == NULL);
  CHECK(strstr(message, "options: byte") != NULL);
  const size_t wrong[] = {0, sizeof(size_t), sizeof(ramcloud_options) - 1, 1025, (size_t)-1};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    options.known.size = wrong[i];
    CHECK(ramcloud_connect(cluster, &options.known, message, sizeof message) == NULL);
    CHECK(strstr(message, "options.size is") != NULL);
  }
  return 0;
}

/* 0: all is well; else `where` says where not. */
int c_api_test(const char* cluster, char* where, size_t where_size) {
  char message[200];
  CHECK(ramcloud_abi_version() == RAMCLOUD_ABI_VERSION);
  CHECK(strcmp(ramcloud_status_name(RAMCLOUD_NOT_FOUND), "NOT_FOUND") == 0);
  CHECK(strcmp(ramcloud_status_name(RAMCLOUD_CORRUPT), "CORRUPT") == 0);
  CHECK(strcmp(ramcloud_status_name(-1), "UNKNOWN") == 0);
  CHECK(ramcloud_connect("nowhere", NULL, message, sizeof message) == NULL);
  CHECK(strstr(message, "nowhere") != NULL);
  CHECK(ramcloud_connect("nowhere", NULL, NULL, 0) == NULL);

  if (check_sizes(cluster, where, where_size) != 0) return 1;

  ramcloud_options options = RAMCLOUD_OPTIONS_INIT;
  CHECK(options.size == sizeof options && options.timeout_ms == 30000 && options.poll_us == 50);
  options.timeout_ms = 60000;
  ramcloud_client* client = ramcloud_connect(cluster, &options, message, sizeof message);
  CHECK(client != NULL && ramcloud_event_fd(client) >= 0);
  ramcloud_call* call = ramcloud_create_table(client, "c", 1, 2, 0);
  const uint64_t table = ramcloud_wait(call)->table_id;
  CHECK(table > 0);
  ramcloud_free(call);
  if (write_all(client, table, where, where_size) != 0) return 1;
  if (scan_all(client, table, where, where_size) != 0) return 1;

  call = ramcloud_list_tables(client, 0);
  CHECK(ramcloud_wait(call)->status == RAMCLOUD_OK && ramcloud_count(call) == 1);
  CHECK(ramcloud_at(call, 0)->key_size == 1 && *(const char*)ramcloud_at(call, 0)->key == 'c');
  ramcloud_free(call);
  call = ramcloud_multi_read(client, NULL, 0, 0);
  CHECK(ramcloud_wait(call)->status == RAMCLOUD_OK && ramcloud_count(call) == 0);
  ramcloud_free(call);

  call = ramcloud_increment_double(client, table, "n", 1, 0.5, NULL, -1);
  while (!ramcloud_done(call)) CHECK(ramcloud_poll(client) >= 0);
  CHECK(ramcloud_wait(call)->number == 0.5);
  ramcloud_free(call);

  ramcloud_call* cancelled = ramcloud_read(client, table, "key1", 4, NULL, 0);
  ramcloud_cancel(cancelled);
  ramcloud_cancel(cancelled);
  CHECK(ramcloud_wait(cancelled)->status == RAMCLOUD_CANCELLED);
  ramcloud_free(ramcloud_read(client, table, "key1", 4, NULL, 0));
  ramcloud_call* late = ramcloud_read(client, table, "key1", 4, NULL, 0);
  ramcloud_close(client);
  CHECK(ramcloud_wait(late)->status == RAMCLOUD_OK);
  ramcloud_free(late);
  ramcloud_free(cancelled);
  ramcloud_free(NULL);
  return 0;
}
