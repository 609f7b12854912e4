#pragma once

#include <cstdint>

#include "durable/postgres/connection.hpp"

// Every statement on our tables, in one place; `@` stands for the schema. The text is a contract with nobody: other
// languages use what docs/postgres.md lists.
//
// **Only the database's clock decides.** It is read within each statement, as microseconds since 1970. In our own
// transactions it stands still (`now()`); in a user's it does not, since a delay counts from the call.
//
// **Fences come from a sequence, never from a clock.** A claim draws its fence while it holds the row's lock. So it is
// higher than that of each claim of the key before it, undone ones and those of former rows included: these have drawn
// theirs before they let the lock go. The sequence must have no cache: a connection would hand out old numbers.
//
// **A share is `id & 63`**: ids come in turn, so each share has as many rows, and there is nothing to store. Each set
// of kinds has its own owners of all 64.
//
// A list is one statement: its arrays come through `unnest`, and `place` says which of them a row is for. **They join
// by `= ANY(ARRAY[…])`, and not by `=`**: by that an index can be asked, and nothing else can be made of it. By `=`, a
// plan from the days of an almost empty table ran through the whole index, and compared each row with each element of
// the list: kept until the table had grown, it took minutes for what takes two milliseconds. For the same reason `+0`
// keeps the index by (due, id+0) out of all but the look ahead.
//
// **The version is the highest of its table**: a backup of the data alone, restored into tables that `migrate` has
// made, brings a second row.

namespace timing_wheel::durable::postgres {

inline constexpr std::int64_t shares = 64;
/// In microseconds: 285 000 years, so that no clock of these days comes to its end by adding it.
inline constexpr std::int64_t longest_delay = 9'000'000'000'000'000'000;

#define TIMING_WHEEL_MICROSECONDS(clock) "(extract(epoch FROM " clock ")*1000000)::bigint"
// Once for a statement, and not for each row.
#define TIMING_WHEEL_NOW "(SELECT " TIMING_WHEEL_MICROSECONDS("now()") ")"

// A claim that is lost in a crash would let two runs have one fence: no commit may be weaker than `on`.
#define TIMING_WHEEL_SYNC                                                                                \
  "set_config('synchronous_commit',CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN " \
  "'remote_apply' ELSE 'on' END,true)"

// Leases that have ended by then may be claimed; after `until`, only those that nobody holds (1).
#define TIMING_WHEEL_ENDED(until) \
  "(SELECT CASE WHEN now<=" until "::bigint THEN now ELSE 1 END FROM " TIMING_WHEEL_NOW " n(now))"

// In a statement that commits by itself: the limits of a transaction, and what a BEGIN looks at. No row, so nothing is
// written, if the tables have another version.
#define TIMING_WHEEL_BEGUN(version, lock_wait)                               \
  "(SELECT " TIMING_WHEEL_NOW " AS now,set_config('lock_timeout'," lock_wait \
  "::text,true) AS waits," TIMING_WHEEL_SYNC " AS syncs FROM @version HAVING max(version)=" version "::bigint)"

namespace sql {

// A planner that sees a small table reads all of it, and keeps that plan while the table grows by a thousand times. So
// these are off for our statements; a handler's own get them back.
//
// `plan_cache_mode`: a plan for the parameters of one call looks cheaper than one for all, since it knows how little it
// will find; so the server would plan anew each time, and a look ahead at a million rows took four times as long.
//
// `jit`: a table without rows, read as a whole, counts as so dear that it would be worth compiling.
//
// Also for our statements: a role's `default_transaction_read_only` is not for those that commit by themselves. It is
// set here, since libpq looks at it first, for `target_session_attrs`.
inline constexpr const char* begin_session =
    "SELECT set_config('enable_seqscan','off',false)||set_config('enable_bitmapscan','off',false)||"
    "set_config('enable_hashjoin','off',false)||set_config('enable_mergejoin','off',false)||"
    "set_config('plan_cache_mode','force_generic_plan',false)||set_config('jit','off',false)||"
    "set_config('default_transaction_read_only','off',false)";

// Of a transaction.
inline constexpr const char* commit = "COMMIT";
inline constexpr const char* savepoint = "SAVEPOINT timing_wheel_part";
inline constexpr const char* release_savepoint = "RELEASE timing_wheel_part";
inline constexpr const char* undo_savepoint = "ROLLBACK TO timing_wheel_part;RELEASE timing_wheel_part";

inline constexpr const char* sync = TIMING_WHEEL_SYNC;
// Its columns: the clock, and the version of the tables.
inline constexpr const char* look = "SELECT " TIMING_WHEEL_MICROSECONDS("now()") ",(SELECT max(version) FROM @version)";

// The same, prepared: the first two begin a transaction, and the others what a handler finds in it.
inline constexpr query begin_writing{"beginning a transaction", "timing_wheel_begin_writing",
                                     "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
inline constexpr query begin_reading{"beginning a transaction", "timing_wheel_begin_reading",
                                     "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"};
inline constexpr query look_and_limit{
    "beginning a transaction", "timing_wheel_look_and_limit",
    "SELECT " TIMING_WHEEL_MICROSECONDS("now()") ",(SELECT max(version) FROM @version),"
    "set_config('statement_timeout',$1::text,true),set_config('idle_in_transaction_session_timeout',$2::text,true),"
    "set_config('lock_timeout',$3::text,true)," TIMING_WHEEL_SYNC};
inline constexpr query give_planner_back{
    "giving the planner back", "timing_wheel_give_planner_back",
    "SELECT set_config('enable_seqscan',$1::text,true),set_config('enable_bitmapscan',$2::text,true),"
    "set_config('enable_hashjoin',$3::text,true),set_config('enable_mergejoin',$4::text,true),"
    "set_config('plan_cache_mode',$5::text,true),set_config('jit',$6::text,true)"};
inline constexpr query set_savepoint{"setting a savepoint", "timing_wheel_savepoint", "SAVEPOINT timing_wheel_part"};
// A session begins with this: it reads the settings of the user's planner, before ours take their place, in the order
// in which they are given back.
inline constexpr const char* planner_of_user =
    "WITH users AS MATERIALIZED (SELECT current_setting('enable_seqscan'),current_setting('enable_bitmapscan'),"
    "current_setting('enable_hashjoin'),current_setting('enable_mergejoin'),current_setting('plan_cache_mode'),"
    "current_setting('jit')) SELECT users.*,";

inline constexpr query read_clock{
    "reading the clock", "timing_wheel_clock",
    "SELECT " TIMING_WHEEL_MICROSECONDS("clock_timestamp()") ",max(version) FROM @version"};

// What our own transactions run.
inline constexpr query insert{
    "scheduling", "timing_wheel_insert",
    "INSERT INTO @check(due,kind,key,payload) "
    "SELECT due,kind,key,payload FROM unnest($1::bigint[],$2::text[],$3::bytea[],$4::bytea[]) u(due,kind,key,payload) "
    "ON CONFLICT(kind,key) DO NOTHING RETURNING id"};
// The same in a transaction of its own. A key that is taken is an error, so that all are written, or none: ON CONFLICT
// would write the rest. The rounded sum does not overflow: a delay is at most 292 years, and a step 2^62 µs.
inline constexpr query insert_alone{
    "scheduling", "timing_wheel_insert_alone",
    "INSERT INTO @check(due,kind,key,payload) SELECT CASE u.step WHEN 0 THEN u.due ELSE "
    "(begun.now+least(u.due,9223372036854775807-begun.now)+(u.step-1))/u.step*u.step END,u.kind,u.key,u.payload FROM "
    TIMING_WHEEL_BEGUN("$6", "$7") " begun,"
    "unnest($1::bigint[],$2::bigint[],$3::text[],$4::bytea[],$5::bytea[]) u(due,step,kind,key,payload) "
    "WHERE begun.waits IS NOT NULL AND begun.syncs IS NOT NULL RETURNING id,due"};
inline constexpr query replace{
    "replacing", "timing_wheel_replace",
    "UPDATE @check c SET due=u.due,payload=u.payload,attempt=0 "
    "FROM unnest($1::bigint[],$2::text[],$3::bytea[],$4::bytea[]) WITH ORDINALITY u(due,kind,key,payload,place) "
    "WHERE c.kind=ANY(ARRAY[u.kind]) AND c.key=ANY(ARRAY[u.key]) AND c.lease IS NULL RETURNING u.place"};
// What stands in the way, and whether it is pending: it may have come after the statement before has looked.
inline constexpr query stands{"scheduling", "timing_wheel_stands",
                              "SELECT u.place,c.id,c.due,c.lease IS NULL "
                              "FROM unnest($1::text[],$2::bytea[]) WITH ORDINALITY u(kind,key,place) "
                              "JOIN @check c ON c.kind=ANY(ARRAY[u.kind]) AND c.key=ANY(ARRAY[u.key])"};
// A transaction that has written nothing does not wait for a synchronous standby. So it writes this where it answers of
// a row of another one, whose own wait may have been given up.
inline constexpr query await_standby{"waiting for a standby", "timing_wheel_await_standby",
                                     "SELECT CASE WHEN current_setting('synchronous_standby_names')<>'' "
                                     "THEN pg_logical_emit_message(true,'timing_wheel',''::text) END"};
// Only what is pending. A lease that has ended is no answer to whether its handler had begun.
inline constexpr query cancel{
    "cancelling", "timing_wheel_cancel",
    "DELETE FROM @check c "
    "USING unnest($1::text[],$2::bytea[]) WITH ORDINALITY u(kind,key,place) "
    "WHERE c.kind=ANY(ARRAY[u.kind]) AND c.key=ANY(ARRAY[u.key]) AND c.lease IS NULL RETURNING u.place,c.attempt"};
inline constexpr query reschedule{
    "rescheduling", "timing_wheel_reschedule",
    "UPDATE @check c SET due=u.due "
    "FROM unnest($1::bigint[],$2::text[],$3::bytea[]) WITH ORDINALITY u(due,kind,key,place) "
    "WHERE c.kind=ANY(ARRAY[u.kind]) AND c.key=ANY(ARRAY[u.key]) AND c.lease IS NULL RETURNING u.place"};

// Leases that have ended may be claimed until $2; those that are nobody's, at any time. `lock` leaves out what others
// have locked. A claim leaves the keys of its row alone, so a foreign key that a user's open transaction has just
// checked does not hide it.
#define TIMING_WHEEL_FREE(lock, limit)                                                                          \
  "(SELECT k.id,k.lease IS NOT NULL AS orphaned,u.place FROM unnest($1::bigint[]) WITH ORDINALITY u(id,place) " \
  "JOIN @check k ON k.id=ANY(ARRAY[u.id]) WHERE k.due+0<=" TIMING_WHEEL_NOW                                     \
  " AND (k.lease IS NULL OR k.lease<=" TIMING_WHEEL_ENDED(                                                      \
      "$2") ")" limit " FOR " lock " OF k SKIP LOCKED) x WHERE c.id=ANY(ARRAY[x.id]) RETURNING x.place,"
inline constexpr query claim{
    "claiming", "timing_wheel_claim",
    "UPDATE @check c SET fence=nextval('@fence'),attempt=c.attempt+1,lease=$3::bigint "
    "FROM " TIMING_WHEEL_FREE("NO KEY UPDATE",
                              " LIMIT $4::bigint") "c.fence,c.attempt,c.due,c.key,c.payload,x.orphaned::int"};
inline constexpr query consume{
    "consuming", "timing_wheel_consume",
    "DELETE FROM @check c "
    "USING " TIMING_WHEEL_FREE("UPDATE", "") "nextval('@fence'),c.attempt+1,c.due,c.key,c.payload,x.orphaned::int"};
inline constexpr query put_back{"putting back", "timing_wheel_put_back",
                                "INSERT INTO @check(id,fence,attempt,due,lease,kind,key,payload) "
                                "VALUES($1::bigint,$2::bigint,$3::bigint,$4::bigint,"
                                "CASE $5::bigint WHEN 1 THEN 1 END,$6::text,$7::bytea,$8::bytea) "
                                "ON CONFLICT(kind,key) DO NOTHING"};

// What a claim may change: its row, with its fence, until it is given up. An orphaned row that is given up keeps a
// lease that ended long ago, the first microsecond (`held_by_nobody`): an extension that is under way must not bring it
// back.
//
// The second form of each leaves out what others have locked. It costs
// more, since each row is locked before it is changed; so it is for the case that the first had to wait.
#define TIMING_WHEEL_OURS "c.id=ANY(ARRAY[u.id]) AND c.fence=u.fence AND c.lease>1"
#define TIMING_WHEEL_ALL(columns, names) \
  "unnest(" columns ") WITH ORDINALITY u(" names ",place) WHERE " TIMING_WHEEL_OURS
#define TIMING_WHEEL_UNLOCKED(columns, names, lock)                                                             \
  "(SELECT u.* FROM unnest(" columns ") WITH ORDINALITY u(" names ",place) JOIN @check c ON " TIMING_WHEEL_OURS \
  " FOR " lock " OF c SKIP LOCKED) u WHERE c.id=ANY(ARRAY[u.id])"
#define TIMING_WHEEL_TICKETS "$1::bigint[],$2::bigint[]"

#define TIMING_WHEEL_COMPLETE(which) "DELETE FROM @check c USING " which " RETURNING u.place"
inline constexpr query complete{"completing", "timing_wheel_complete",
                                TIMING_WHEEL_COMPLETE(TIMING_WHEEL_ALL(TIMING_WHEEL_TICKETS, "id,fence"))};
inline constexpr query complete_unlocked{
    "completing", "timing_wheel_complete_unlocked",
    TIMING_WHEEL_COMPLETE(TIMING_WHEEL_UNLOCKED(TIMING_WHEEL_TICKETS, "id,fence", "UPDATE"))};

#define TIMING_WHEEL_EXTEND(which) "UPDATE @check c SET lease=$3::bigint FROM " which " RETURNING u.place"
inline constexpr query extend{"extending a lease", "timing_wheel_extend",
                              TIMING_WHEEL_EXTEND(TIMING_WHEEL_ALL(TIMING_WHEEL_TICKETS, "id,fence"))};
inline constexpr query extend_unlocked{
    "extending a lease", "timing_wheel_extend_unlocked",
    TIMING_WHEEL_EXTEND(TIMING_WHEEL_UNLOCKED(TIMING_WHEEL_TICKETS, "id,fence", "NO KEY UPDATE"))};

#define TIMING_WHEEL_RELEASE(which)                                                                     \
  "UPDATE @check c SET lease=CASE u.orphaned WHEN 1 THEN 1 END,due=u.due,attempt=u.attempt FROM " which \
  " RETURNING u.place"
#define TIMING_WHEEL_RELEASES TIMING_WHEEL_TICKETS ",$3::bigint[],$4::integer[],$5::integer[]"
inline constexpr query release{
    "giving a claim back", "timing_wheel_release",
    TIMING_WHEEL_RELEASE(TIMING_WHEEL_ALL(TIMING_WHEEL_RELEASES, "id,fence,due,attempt,orphaned"))};
inline constexpr query release_unlocked{"giving a claim back", "timing_wheel_release_unlocked",
                                        TIMING_WHEEL_RELEASE(TIMING_WHEEL_UNLOCKED(
                                            TIMING_WHEEL_RELEASES, "id,fence,due,attempt,orphaned", "NO KEY UPDATE"))};

#define TIMING_WHEEL_BURY(which)                                                \
  "WITH gone AS (DELETE FROM @check c USING " which                             \
  " RETURNING c.kind,c.key,c.payload,c.due,c.fence,c.attempt,u.error,u.place)," \
  "dead AS (INSERT INTO @dead(kind,key,payload,due,fence,attempt,error,died) "  \
  "SELECT kind,key,payload,due,fence,attempt,error," TIMING_WHEEL_NOW " FROM gone) SELECT place FROM gone"
#define TIMING_WHEEL_BURIALS TIMING_WHEEL_TICKETS ",$3::bytea[]"
inline constexpr query bury{"burying", "timing_wheel_bury",
                            TIMING_WHEEL_BURY(TIMING_WHEEL_ALL(TIMING_WHEEL_BURIALS, "id,fence,error"))};
inline constexpr query bury_unlocked{
    "burying", "timing_wheel_bury_unlocked",
    TIMING_WHEEL_BURY(TIMING_WHEEL_UNLOCKED(TIMING_WHEEL_BURIALS, "id,fence,error", "UPDATE"))};
// Which of them are still held: of those that were left out, these are locked.
inline constexpr query still_ours{"looking for a claim", "timing_wheel_still_ours",
                                  "SELECT u.place FROM @check c JOIN unnest(" TIMING_WHEEL_TICKETS
                                  ") WITH ORDINALITY u(id,fence,place) ON " TIMING_WHEEL_OURS};
inline constexpr query bury_consumed{
    "burying", "timing_wheel_bury_consumed",
    "INSERT INTO @dead(kind,key,payload,due,fence,attempt,error,died) "
    "VALUES($1::text,$2::bytea,$3::bytea,$4::bigint,$5::bigint,$6::bigint,$7::bytea," TIMING_WHEEL_NOW ")"};
inline constexpr query delete_dead{"deleting a dead check", "timing_wheel_delete_dead",
                                   "DELETE FROM @dead WHERE id=ANY($1::bigint[])"};

// The first row has the clock and the version in place of a row's (the id is NULL). `place` is that of the kind, or
// NULL for a row that is not asked for. Such a row is answered only if it is the last of those that were looked at,
// so that the next page begins there: a statement looks at no more than $7, whatever is between them.
//
// The first row also says whether there is a table of paused kinds ($9) and one of drained nodes ($10), in `paused` and
// `attempt`: an older library has made none. Where they are known to be there, the paused kinds come as rows without an
// id and a `place`; so does an empty name if this node ($11) is drained. So a poll is one statement.
#define TIMING_WHEEL_READ_AHEAD(more) \
  "SELECT " TIMING_WHEEL_MICROSECONDS("clock_timestamp()")                                                         \
  " AS due,NULL::bigint AS id,NULL::bigint AS lease,"                                                              \
  "coalesce(max(version),0) AS place,0 AS looked,(to_regclass($10::text) IS NOT NULL)::int AS attempt,0 AS size,"  \
  "to_regclass($9::text)::text AS paused FROM @version " more                                                      \
  "UNION ALL SELECT found.*,NULL FROM (SELECT due,id,lease,place,looked,attempt,size FROM "                        \
  "(SELECT due,id,lease,attempt,size,CASE WHEN $5::bigint[] IS NULL OR due<$6::bigint OR id&63=ANY($5::bigint[]) " \
  "THEN array_position($4::text[],kind) END AS place,row_number() OVER (ORDER BY due,id) AS looked FROM "          \
  "(SELECT due,id+0 AS id,lease,attempt,kind,octet_length(payload) AS size FROM @check "                           \
  "WHERE (due,id+0)>($1::bigint,$2::bigint) AND due<$3::bigint "                                                   \
  "ORDER BY due,id+0 LIMIT $7::bigint) w) l "                                                                      \
  "WHERE place IS NOT NULL OR looked=$7::bigint ORDER BY due,id LIMIT $8::bigint) found"
inline constexpr query read_ahead{"reading ahead", "timing_wheel_read_ahead", TIMING_WHEEL_READ_AHEAD("")};
inline constexpr query read_ahead_and_paused{
    "reading ahead", "timing_wheel_read_ahead_and_paused",
    TIMING_WHEEL_READ_AHEAD("UNION ALL SELECT since,NULL,NULL,NULL,0,0,0,kind FROM @paused_kind ")};
inline constexpr query read_ahead_and_drained{
    "reading ahead", "timing_wheel_read_ahead_and_drained",
    TIMING_WHEEL_READ_AHEAD("UNION ALL SELECT since,NULL,NULL,NULL,0,0,0,kind FROM @paused_kind UNION ALL "
                            "SELECT since,NULL,NULL,NULL,0,0,0,'' FROM @drained_node WHERE node=$11::text ")};
inline constexpr query read_overdue{
    "looking for what is late", "timing_wheel_read_overdue",
    "SELECT kind,min(greatest(due,lease)) FROM (SELECT kind,due,lease FROM @check WHERE due<=" TIMING_WHEEL_NOW
    " AND (lease IS NULL OR lease<=" TIMING_WHEEL_NOW ") ORDER BY due,id+0 LIMIT $1::bigint) late GROUP BY kind"};
inline constexpr query find{"finding", "timing_wheel_find",
                            "SELECT payload,due,fence,attempt,lease,id FROM @check "
                            "WHERE kind=$1::text AND key=$2::bytea"};
// $1: the name of the table. Nothing if it is not there.
inline constexpr query look_for_table{"looking for a table", "timing_wheel_look_for_table",
                                      "SELECT 1 WHERE to_regclass($1::text) IS NOT NULL"};
// $1: the name of the table. Nothing if it is not there, or if the role may not write it.
inline constexpr query look_for_rights{
    "looking for a table", "timing_wheel_look_for_rights",
    "SELECT 1 FROM (SELECT to_regclass($1::text)::oid AS id) t WHERE has_table_privilege(id,'SELECT') AND "
    "has_table_privilege(id,'INSERT') AND has_table_privilege(id,'UPDATE') AND has_table_privilege(id,'DELETE')"};
inline constexpr query paused_kinds{"looking for paused kinds", "timing_wheel_paused_kinds",
                                    "SELECT kind,since FROM @paused_kind ORDER BY kind"};
inline constexpr query pause{"pausing a kind", "timing_wheel_pause",
                             "INSERT INTO @paused_kind(kind,since) VALUES($1::text," TIMING_WHEEL_NOW
                             ") ON CONFLICT(kind) DO NOTHING"};
inline constexpr query resume{"resuming a kind", "timing_wheel_resume", "DELETE FROM @paused_kind WHERE kind=$1::text"};
inline constexpr query drained_nodes{"looking for drained nodes", "timing_wheel_drained_nodes",
                                     "SELECT node,since,held,told FROM @drained_node ORDER BY node"};
inline constexpr query drain{"draining a node", "timing_wheel_drain",
                             "INSERT INTO @drained_node(node,since) VALUES($1::text," TIMING_WHEEL_NOW
                             ") ON CONFLICT(node) DO NOTHING"};
inline constexpr query end_drain{"ending a drain", "timing_wheel_end_drain",
                                 "DELETE FROM @drained_node WHERE node=$1::text"};
// What a node that has died told stays for a day at least.
inline constexpr query forget_long_runs{"telling of long runs", "timing_wheel_forget_long_runs",
                                        "DELETE FROM @long_run WHERE node=$1::text OR told<" TIMING_WHEEL_NOW
                                        "-86400000000"};
inline constexpr query tell_long_runs{
    "telling of long runs", "timing_wheel_tell_long_runs",
    "INSERT INTO @long_run(node,told,ids,fences,begun) "
    "VALUES($1::text," TIMING_WHEEL_NOW
    ",$2::bigint[],$3::bigint[],$4::bigint[]) ON CONFLICT(node) DO UPDATE "
    "SET told=excluded.told,ids=excluded.ids,fences=excluded.fences,begun=excluded.begun"};
inline constexpr query long_runs{
    "reading long runs", "timing_wheel_long_runs",
    "SELECT l.node,c.kind,c.key,r.id,r.fence,r.begun,l.told FROM @long_run l CROSS JOIN LATERAL "
    "unnest(l.ids,l.fences,l.begun) r(id,fence,begun) JOIN @check c ON c.id=r.id AND c.fence=r.fence "
    "WHERE c.lease IS NOT NULL ORDER BY r.begun,r.id"};
inline constexpr query forget_failed_runs{
    "telling of failed runs", "timing_wheel_forget_failed_runs",
    "DELETE FROM @failed_run f WHERE NOT EXISTS(SELECT FROM @check c WHERE c.id=f.id)"};
inline constexpr query tell_failed_runs{
    "telling of failed runs", "timing_wheel_tell_failed_runs",
    "INSERT INTO @failed_run(id,attempt,node,told,error) SELECT r.id,r.attempt,$1::text," TIMING_WHEEL_NOW
    ",r.error FROM unnest($2::bigint[],$3::integer[],$4::bytea[]) r(id,attempt,error) JOIN @check c ON c.id=r.id "
    "ORDER BY r.id ON CONFLICT(id) DO UPDATE "
    "SET attempt=excluded.attempt,node=excluded.node,told=excluded.told,error=excluded.error"};
inline constexpr query failed_runs{
    "reading failed runs", "timing_wheel_failed_runs",
    "SELECT f.node,f.id,f.attempt,f.error,f.told FROM @failed_run f JOIN @check c ON c.id=f.id AND "
    "c.attempt>=f.attempt WHERE f.id=ANY($1::bigint[]) ORDER BY f.id"};
// What two nodes find to forget at a time, one of them forgets.
inline constexpr query tell_runs{"telling of runs", "timing_wheel_tell_runs",
                                 "WITH old AS (SELECT ctid AS place FROM @run_count WHERE told<" TIMING_WHEEL_NOW
                                 "-60000000 FOR UPDATE SKIP LOCKED),"
                                 "forgotten AS (DELETE FROM @run_count WHERE ctid=ANY(ARRAY(SELECT place FROM old))) "
                                 "INSERT INTO @run_count(node,told,begun,ended,failed) "
                                 "VALUES($1::text," TIMING_WHEEL_NOW ",$2::bigint,$3::bigint,$4::bigint)"};
// $1: the name of the table. How many of its rows are dead, from how many on it is worth a vacuum, whether the role may
// do that, and how many rows were changed or deleted so far. On a large table it is autovacuum that comes first.
inline constexpr query dead_rows{
    "looking for dead rows", "timing_wheel_dead_rows",
    "SELECT coalesce(s.n_dead_tup,0)::bigint,(50000+greatest(c.reltuples,0)*0.05)::bigint,"
    "CASE WHEN current_setting('server_version_num')::integer>=170000 THEN has_table_privilege(c.oid,'MAINTAIN') "
    "ELSE pg_has_role(c.relowner,'USAGE') END::integer,coalesce(s.n_tup_upd+s.n_tup_del,0)::bigint "
    "FROM pg_class c LEFT JOIN pg_stat_all_tables s ON s.relid=c.oid WHERE c.oid=to_regclass($1::text)"};
// Behind another one it would wait, and then find nothing; to shorten the table it would lock it.
inline constexpr const char* vacuum = "VACUUM (SKIP_LOCKED, TRUNCATE false) @check";
inline constexpr query runs_of_last_minute{
    "reading how many have run", "timing_wheel_runs_of_last_minute",
    "SELECT coalesce(sum(begun),0)::bigint,coalesce(sum(ended),0)::bigint,coalesce(sum(failed),0)::bigint "
    "FROM @run_count WHERE told>" TIMING_WHEEL_NOW "-60000000"};
// $1: the name of the table. Nothing if it is not there, or if the role may not read it.
inline constexpr query look_for_right_to_read{
    "looking for a table", "timing_wheel_look_for_right_to_read",
    "SELECT 1 WHERE has_table_privilege(to_regclass($1::text)::oid,'SELECT')"};
inline constexpr query tell_drained{"telling what a drained node has", "timing_wheel_tell_drained",
                                    "UPDATE @drained_node SET held=$2::bigint,told=" TIMING_WHEEL_NOW
                                    " WHERE node=$1::text"};

// The owner of a share lives as long as its node's row says, so nothing but that row is written while nothing changes.
// A node that others have given up may still believe in its shares for one round; that does no harm. The row of a node
// that went silent stays for a day, for an operator to see.
//
// Shares are divided among the nodes that serve the same set of kinds: else a row would wait in the share of a node
// that has no handler for it. $2 names the set. The rows of one are made when its first node comes, and again when they
// are missing: a NULL in place of a share says so.
//
// Of 64 shares each node has its part, and the first by name have one more where that does not come out even: so one
// that has too many always knows it, and nobody goes without while others could give.
inline constexpr query renew_shares{
    "renewing shares", "timing_wheel_renew_shares",
    "WITH me AS (INSERT INTO @node(kinds,name,until) VALUES($2::text,$1::text," TIMING_WHEEL_NOW
    "+$3::bigint) "
    "ON CONFLICT(kinds,name) DO UPDATE SET until=excluded.until),"
    "dead AS MATERIALIZED (SELECT kinds,name FROM @node WHERE until<=" TIMING_WHEEL_NOW
    "-86400000000 AND (kinds<>$2::text OR name<>$1::text) ORDER BY kinds,name FOR UPDATE SKIP LOCKED),"
    "gone AS (DELETE FROM @node n USING dead WHERE n.kinds=ANY(ARRAY[dead.kinds]) AND n.name=ANY(ARRAY[dead.name])),"
    "others AS MATERIALIZED (SELECT name FROM @node WHERE kinds=$2::text AND until>" TIMING_WHEEL_NOW
    " AND name<>$1::text),"
    "part AS MATERIALIZED (SELECT 64/(count(*)+1)+(count(*) FILTER (WHERE name<$1::text)<64%(count(*)+1))::int AS most "
    "FROM others),"
    "here AS MATERIALIZED (SELECT share,owner FROM @share WHERE kinds=$2::text),"
    "mine AS MATERIALIZED (SELECT share,row_number() OVER (ORDER BY share) AS place FROM here "
    "WHERE owner=$1::text),"
    "kept AS (SELECT share FROM mine WHERE place<=(SELECT most FROM part)),"
    "freed AS (UPDATE @share SET owner=NULL,epoch=epoch+1 WHERE kinds=$2::text AND owner=$1::text AND "
    "share=ANY(ARRAY(SELECT share FROM mine WHERE place>(SELECT most FROM part)))),"
    "free AS (SELECT share FROM @share WHERE kinds=$2::text AND (owner IS NULL OR owner<>$1::text AND "
    "owner NOT IN (SELECT name FROM others)) "
    "ORDER BY share LIMIT greatest(0,(SELECT most FROM part)-(SELECT count(*) FROM mine)) FOR UPDATE SKIP LOCKED),"
    "taken AS (UPDATE @share s SET owner=$1::text,epoch=s.epoch+1 FROM free WHERE s.kinds=$2::text "
    "AND s.share=ANY(ARRAY[free.share]) RETURNING s.share) "
    "SELECT share FROM kept UNION ALL SELECT share FROM taken UNION ALL "
    "SELECT NULL WHERE (SELECT count(*) FROM here)<64"};
inline constexpr query make_shares{"making shares", "timing_wheel_make_shares",
                                   "INSERT INTO @share(kinds,share) SELECT $1::text,generate_series(0,63) "
                                   "ON CONFLICT(kinds,share) DO NOTHING"};
inline constexpr query leave{"giving shares up", "timing_wheel_leave",
                             "WITH gone AS (DELETE FROM @node WHERE kinds=$2::text AND name=$1::text) "
                             "UPDATE @share SET owner=NULL,epoch=epoch+1 WHERE kinds=$2::text AND owner=$1::text"};

// In a user's own transaction, planned anew each time: so they are as plain as can be. One that also looked for what
// stands in the way, by a CTE, took the server three times as long. A delay counts from the call; `after` has no limit
// to it, see `longest_delay`.
#define TIMING_WHEEL_AFTER(step)                                                                                    \
  "($1::bigint+" TIMING_WHEEL_MICROSECONDS("statement_timestamp()") "+(" step "::bigint-1))/" step "::bigint*" step \
                                                                    "::bigint"
#define TIMING_WHEEL_INSERT(due)                         \
  "INSERT INTO @check(due,kind,key,payload) VALUES(" due \
  ",$2::text,$3::bytea,$4::bytea) "                      \
  "ON CONFLICT(kind,key) DO NOTHING RETURNING due"
#define TIMING_WHEEL_REPLACE(due) \
  "UPDATE @check SET due=" due    \
  ",payload=$4::bytea,attempt=0 " \
  "WHERE kind=$2::text AND key=$3::bytea AND lease IS NULL RETURNING due"
#define TIMING_WHEEL_RESCHEDULE(due) \
  "UPDATE @check SET due=" due " WHERE kind=$2::text AND key=$3::bytea AND lease IS NULL"
inline constexpr query users_insert_at{"scheduling", "", TIMING_WHEEL_INSERT("$1::bigint")};
inline constexpr query users_insert_after{"scheduling", "", TIMING_WHEEL_INSERT(TIMING_WHEEL_AFTER("$5"))};
inline constexpr query users_replace_at{"replacing", "", TIMING_WHEEL_REPLACE("$1::bigint")};
inline constexpr query users_replace_after{"replacing", "", TIMING_WHEEL_REPLACE(TIMING_WHEEL_AFTER("$5"))};
inline constexpr query users_reschedule_at{"rescheduling", "", TIMING_WHEEL_RESCHEDULE("$1::bigint")};
inline constexpr query users_reschedule_after{"rescheduling", "", TIMING_WHEEL_RESCHEDULE(TIMING_WHEEL_AFTER("$4"))};
inline constexpr query users_cancel{"cancelling", "",
                                    "DELETE FROM @check WHERE kind=$1::text AND key=$2::bytea AND lease IS NULL "
                                    "RETURNING attempt"};
// Around a statement of a user's open transaction. PostgreSQL locks a row before it looks once more whether the row is
// what was asked for, and keeps that lock if it is not; only undoing a part of the transaction lets it go.
inline constexpr const char* users_savepoint = "SAVEPOINT timing_wheel_call";
inline constexpr const char* users_release = "RELEASE timing_wheel_call";
inline constexpr const char* users_undo = "ROLLBACK TO timing_wheel_call;RELEASE timing_wheel_call";
// What stands in the way, and whether it is pending.
inline constexpr query users_stands{"looking for a check", "",
                                    "SELECT due,lease IS NULL FROM @check WHERE kind=$1::text AND key=$2::bytea"};

// The end of claims and the next ones, in a transaction of its own. Its rows: the clock (`what` 0), then the claims
// that were still ours (1) and those that were made (2). The parts of a statement see what was there before it; no row
// is in both lists.
inline constexpr query complete_and_claim{
    "completing and claiming", "timing_wheel_complete_and_claim",
    "WITH begun AS MATERIALIZED (SELECT now,now+least($3::bigint,9223372036854775807-now) AS until FROM "
    TIMING_WHEEL_BEGUN("$7", "$8") " l WHERE waits IS NOT NULL AND syncs IS NOT NULL),"
    "done AS (DELETE FROM @check c USING " TIMING_WHEEL_ALL("$5::bigint[],$6::bigint[]", "id,fence")
    " AND (SELECT now FROM begun) IS NOT NULL RETURNING u.place),"
    "got AS (UPDATE @check c SET fence=nextval('@fence'),attempt=c.attempt+1,lease=(SELECT until FROM begun) FROM "
    TIMING_WHEEL_FREE("NO KEY UPDATE", " AND (SELECT now FROM begun) IS NOT NULL LIMIT $4::bigint")
    "c.fence,c.attempt,c.due,c.key,c.payload,x.orphaned::int AS orphaned) "
    "SELECT 0::bigint AS place,0::bigint AS fence,0 AS attempt,now AS due,''::bytea AS key,''::bytea AS payload,"
    "0 AS orphaned,0 AS what FROM begun UNION ALL SELECT place,0,0,0,'','',0,1 FROM done "
    "UNION ALL SELECT place,fence,attempt,due,key,payload,orphaned,2 FROM got"};

/// All that touch the checks, for the test that none looks through the table.
inline constexpr const query* on_checks[] = {&insert,
                                             &insert_alone,
                                             &replace,
                                             &stands,
                                             &cancel,
                                             &reschedule,
                                             &claim,
                                             &complete_and_claim,
                                             &consume,
                                             &put_back,
                                             &complete,
                                             &complete_unlocked,
                                             &extend,
                                             &extend_unlocked,
                                             &release,
                                             &release_unlocked,
                                             &bury,
                                             &bury_unlocked,
                                             &still_ours,
                                             &delete_dead,
                                             &read_ahead,
                                             &read_ahead_and_paused,
                                             &read_ahead_and_drained,
                                             &read_overdue,
                                             &find,
                                             &users_insert_at,
                                             &users_insert_after,
                                             &users_replace_at,
                                             &users_replace_after,
                                             &users_reschedule_at,
                                             &users_reschedule_after,
                                             &users_cancel,
                                             &users_stands};

}  // namespace sql

#undef TIMING_WHEEL_MICROSECONDS
#undef TIMING_WHEEL_NOW
#undef TIMING_WHEEL_SYNC
#undef TIMING_WHEEL_ENDED
#undef TIMING_WHEEL_BEGUN
#undef TIMING_WHEEL_FREE
#undef TIMING_WHEEL_OURS
#undef TIMING_WHEEL_ALL
#undef TIMING_WHEEL_UNLOCKED
#undef TIMING_WHEEL_TICKETS
#undef TIMING_WHEEL_COMPLETE
#undef TIMING_WHEEL_EXTEND
#undef TIMING_WHEEL_RELEASE
#undef TIMING_WHEEL_RELEASES
#undef TIMING_WHEEL_BURY
#undef TIMING_WHEEL_BURIALS
#undef TIMING_WHEEL_READ_AHEAD
#undef TIMING_WHEEL_AFTER
#undef TIMING_WHEEL_INSERT
#undef TIMING_WHEEL_REPLACE
#undef TIMING_WHEEL_RESCHEDULE

static_assert(shares == 64, "the statements spell it out");

}  // namespace timing_wheel::durable::postgres
