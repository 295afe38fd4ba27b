/* The C interface of the RAMCloud client: libramcloud.so. Other languages build on it (Python
 * does).
 *
 *   ramcloud_client* client = ramcloud_connect("127.0.0.1:11100", NULL, message, sizeof message);
 *   ramcloud_call* call = ramcloud_read(client, table_id, "alice", 5, NULL, 0);
 *   const ramcloud_result* found = ramcloud_wait(call);
 *   if (found->status == RAMCLOUD_OK) use(found->value, found->value_size);
 *   ramcloud_free(call);
 *
 * Every operation gives a call at once. Waiting for one call drives all calls of its client, so any
 * number may be outstanding. What a call has in its results belongs to it, until ramcloud_free().
 * Bytes that go in are copied before a function returns.
 *
 * Retries, deadlines and INDETERMINATE are as in the C++ client: see ramcloud.h and
 * docs/reference/errors.md. A client and its calls belong to one thread at a time. */
#ifndef RAMCLOUD_RAMCLOUD_C_H
#define RAMCLOUD_RAMCLOUD_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rises when something that was there changes; what is added does not change it. */
#define RAMCLOUD_ABI_VERSION 2
uint32_t ramcloud_abi_version(void);

/* Why an operation failed; the values are those of the protocol. */
enum ramcloud_status {
  RAMCLOUD_OK = 0,
  RAMCLOUD_NOT_FOUND = 1,
  RAMCLOUD_EXISTS = 2,
  RAMCLOUD_WRONG_VERSION = 3,
  RAMCLOUD_INVALID_ARGUMENT = 4,
  RAMCLOUD_OUT_OF_MEMORY = 6,
  RAMCLOUD_UNAVAILABLE = 8,
  RAMCLOUD_DEADLINE_EXCEEDED = 9,
  RAMCLOUD_INDETERMINATE = 10,
  RAMCLOUD_CANCELLED = 11,
  RAMCLOUD_WRONG_CLUSTER = 14,
  RAMCLOUD_UNSUPPORTED = 16,
  RAMCLOUD_PROTOCOL_ERROR = 17,
  RAMCLOUD_CORRUPT = 18,
  RAMCLOUD_NO_SPACE = 19,
  RAMCLOUD_IO_ERROR = 20,
  RAMCLOUD_INTERNAL = 22
};
/* "NOT_FOUND" and so on. Never NULL, never to be freed. */
const char* ramcloud_status_name(int status);

typedef struct ramcloud_client ramcloud_client;
typedef struct ramcloud_call ramcloud_call;
typedef struct ramcloud_scan ramcloud_scan;

/* Begin with RAMCLOUD_OPTIONS_INIT, then set what should differ:
 *   ramcloud_options options = RAMCLOUD_OPTIONS_INIT;
 *   options.timeout_ms = 5000;
 * Fields are only added, at the end, and 0 in them means the behavior before they existed. So a
 * program with fewer fields runs with a newer library. One with more fields runs with an older
 * library as long as it leaves them 0. */
typedef struct ramcloud_options {
  size_t size;        /* sizeof(ramcloud_options) where the program was built */
  int64_t timeout_ms; /* of each call, retries together; 0: 30 s; negative: for ever */
  int64_t poll_us;    /* how long to look for answers before sleeping; 0 sleeps at once */
} ramcloud_options;
#define RAMCLOUD_OPTIONS_INIT {sizeof(ramcloud_options), 30000, 50}

/* When an operation shall fail instead of taking effect; flags may be combined. */
enum ramcloud_fail {
  RAMCLOUD_FAIL_IF_ABSENT = 1,      /* NOT_FOUND when there is no object */
  RAMCLOUD_FAIL_IF_EXISTS = 2,      /* EXISTS when there is one */
  RAMCLOUD_FAIL_UNLESS_VERSION = 4, /* WRONG_VERSION unless it has `version` */
  RAMCLOUD_FAIL_UNLESS_NEWER = 8    /* WRONG_VERSION if its version is <= `version` */
};
typedef struct ramcloud_conditions {
  uint32_t flags;
  uint64_t version;
} ramcloud_conditions;

/* What came out. Pointers may be NULL when their size is 0. */
typedef struct ramcloud_result {
  int status;          /* RAMCLOUD_OK or why not */
  const char* message; /* for people; never NULL */
  uint64_t version;    /* of what was read, written or summed; of what was removed, 0: nothing */
  const void* key;     /* of an object; of a table its name */
  size_t key_size;
  const void* value; /* of what was read */
  size_t value_size;
  int64_t integer; /* the sum of ramcloud_increment */
  double number;   /* the sum of ramcloud_increment_double */
  uint64_t table_id;
} ramcloud_result;

/* `cluster` is "host:port[,host:port...]"; `options` may be NULL: RAMCLOUD_OPTIONS_INIT. Nothing is
 * sent yet. NULL: one of them is malformed, and `message` (if not NULL) says how. */
ramcloud_client* ramcloud_connect(const char* cluster, const ramcloud_options* options,
                                  char* message, size_t message_size);
/* Calls that are left stay valid and can be waited for. */
void ramcloud_close(ramcloud_client* client);

/* For programs with an event loop: ramcloud_poll does what is ready, without waiting, and gives
 * after how many microseconds it must be called again even if the descriptor, which belongs to the
 * client, has not become readable. */
int ramcloud_event_fd(const ramcloud_client* client);
int64_t ramcloud_poll(ramcloud_client* client);

/* Calls. Of most, there is one result. timeout_ms in all that follows: 0 is the client's, negative
 * is for ever. conditions may be NULL. */
int ramcloud_done(const ramcloud_call* call); /* 1: ramcloud_wait does not wait */
/* Of the client's calls that are done and not freed, one that this function has not given yet, in
 * the order in which they ended; NULL: none. With many calls outstanding, what to do after
 * ramcloud_poll instead of asking each. */
ramcloud_call* ramcloud_next_done(ramcloud_client* client);
const ramcloud_result* ramcloud_wait(
    ramcloud_call* call);                         /* the first result, or why there is none */
size_t ramcloud_count(const ramcloud_call* call); /* of results, of a call that is done */
const ramcloud_result* ramcloud_at(const ramcloud_call* call, size_t index); /* below the count */
void ramcloud_cancel(ramcloud_call* call); /* it is done then; it may have happened all the same */
void ramcloud_free(ramcloud_call* call);   /* cancels, if need be; NULL is fine */

/* Tables: table_id and, in key, the name. ramcloud_list_tables has a result a table. */
ramcloud_call* ramcloud_create_table(ramcloud_client* client, const char* name, size_t name_size,
                                     uint32_t span, int64_t timeout_ms);
ramcloud_call* ramcloud_open_table(ramcloud_client* client, const char* name, size_t name_size,
                                   int64_t timeout_ms);
ramcloud_call* ramcloud_drop_table(ramcloud_client* client, const char* name, size_t name_size,
                                   int64_t timeout_ms);
ramcloud_call* ramcloud_list_tables(ramcloud_client* client, int64_t timeout_ms);

/* Objects: keys of 1 to 65,535 bytes, values of 0 to 1,048,576. */
ramcloud_call* ramcloud_read(ramcloud_client* client, uint64_t table_id, const void* key,
                             size_t key_size, const ramcloud_conditions* conditions,
                             int64_t timeout_ms);
ramcloud_call* ramcloud_write(ramcloud_client* client, uint64_t table_id, const void* key,
                              size_t key_size, const void* value, size_t value_size,
                              const ramcloud_conditions* conditions, int64_t timeout_ms);
ramcloud_call* ramcloud_remove(ramcloud_client* client, uint64_t table_id, const void* key,
                               size_t key_size, const ramcloud_conditions* conditions,
                               int64_t timeout_ms);
/* Adds to the 8 bytes, little-endian, of an object: an integer (which wraps round) or a double. An
 * absent object counts as 0. */
ramcloud_call* ramcloud_increment(ramcloud_client* client, uint64_t table_id, const void* key,
                                  size_t key_size, int64_t delta,
                                  const ramcloud_conditions* conditions, int64_t timeout_ms);
ramcloud_call* ramcloud_increment_double(ramcloud_client* client, uint64_t table_id,
                                         const void* key, size_t key_size, double delta,
                                         const ramcloud_conditions* conditions, int64_t timeout_ms);

/* Many operations at once; the results are in their order, each with its own status. */
typedef struct ramcloud_operation {
  uint64_t table_id;
  const void* key;
  size_t key_size;
  const void* value; /* of a write */
  size_t value_size;
  ramcloud_conditions conditions;
} ramcloud_operation;
ramcloud_call* ramcloud_multi_read(ramcloud_client* client, const ramcloud_operation* operations,
                                   size_t count, int64_t timeout_ms);
ramcloud_call* ramcloud_multi_write(ramcloud_client* client, const ramcloud_operation* operations,
                                    size_t count, int64_t timeout_ms);
ramcloud_call* ramcloud_multi_remove(ramcloud_client* client, const ramcloud_operation* operations,
                                     size_t count, int64_t timeout_ms);

/* All objects of a table, in no particular order. An object that exists during the whole scan is
 * seen exactly once. Each ramcloud_scan_next gives some; none, with status OK, at the end. After a
 * failure the same page may be asked for again. One call of a scan at a time. */
ramcloud_scan* ramcloud_scan_begin(ramcloud_client* client, uint64_t table_id, int keys_only);
ramcloud_call* ramcloud_scan_next(ramcloud_scan* scan, int64_t timeout_ms);
void ramcloud_scan_end(ramcloud_scan* scan);

#ifdef __cplusplus
}
#endif
#endif
