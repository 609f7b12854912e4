#pragma once

#include <cstddef>
#include <cstdint>

#include "durable/sqlite/database.hpp"

// Every statement on our tables, in one place. The text is a contract with nobody: other languages use what
// docs/durable.md lists.
//
// **Ids and fences come from counters, never from a clock.** An id is an AUTOINCREMENT: SQLite keeps the highest that
// the table ever had, so none is used twice, whatever was deleted and however the clock was set. A claim draws its
// fences from a row of their own, in the transaction that claims; so a fence is higher than any that the key ever had.
// What a transaction has drawn that was undone is lost from the file; the store remembers it as long as it lives.

namespace timing_wheel::durable::sqlite {

namespace sql {

/// How many rows a statement has places for that reads or writes several.
inline constexpr std::size_t rows_at_once = 20;

// Of a connection.
inline constexpr query begin{"beginning a transaction", "BEGIN IMMEDIATE"};
inline constexpr query commit{"committing", "COMMIT"};
inline constexpr query roll_back{"rolling back", "ROLLBACK"};
inline constexpr query savepoint{"setting a savepoint", "SAVEPOINT timing_wheel_part"};
inline constexpr query undo_savepoint{"rolling back to a savepoint", "ROLLBACK TO timing_wheel_part"};
inline constexpr query release_savepoint{"releasing a savepoint", "RELEASE timing_wheel_part"};

// What our own transactions run. Parameters are numbered in the order in which they are bound.
inline constexpr query insert{"scheduling",
                              "INSERT INTO timing_wheel_check(due,kind,key,payload) VALUES(?1,?2,?3,?4) "
                              "ON CONFLICT(kind,key) DO NOTHING"};
// Several with ids that were drawn before, since AUTOINCREMENT looks its counter up, and writes it, in each statement.
#define TIMING_WHEEL_FIVE(row) row "," row "," row "," row "," row
#define TIMING_WHEEL_TWENTY(row) \
  TIMING_WHEEL_FIVE(row) "," TIMING_WHEEL_FIVE(row) "," TIMING_WHEEL_FIVE(row) "," TIMING_WHEEL_FIVE(row)
inline constexpr query insert_some{"scheduling",
                                   "INSERT INTO timing_wheel_check(id,due,kind,key,payload) "
                                   "VALUES" TIMING_WHEEL_TWENTY("(?,?,?,?,?)") " ON CONFLICT(kind,key) DO NOTHING"};
inline constexpr query last_id{"scheduling",
                               "SELECT max((SELECT coalesce(max(id),0) FROM timing_wheel_check),(SELECT "
                               "coalesce(max(seq),0) FROM sqlite_sequence WHERE name='timing_wheel_check'))"};
inline constexpr query replace{"replacing",
                               "UPDATE timing_wheel_check SET due=?1,payload=?4,attempt=0 "
                               "WHERE kind=?2 AND key=?3 AND lease IS NULL"};
inline constexpr query find_due{"scheduling", "SELECT due,id FROM timing_wheel_check WHERE kind=?1 AND key=?2"};
// Only what is pending. A lease that has ended is no answer to whether its handler had begun.
inline constexpr query cancel{"cancelling",
                              "DELETE FROM timing_wheel_check WHERE kind=?1 AND key=?2 AND lease IS NULL "
                              "RETURNING attempt"};
inline constexpr query reschedule{"rescheduling",
                                  "UPDATE timing_wheel_check SET due=?3 WHERE kind=?1 AND key=?2 AND lease IS NULL"};
// What the statements below claim, read before them in the same transaction. They have no RETURNING: for that, SQLite
// makes a table of its own in each run, which takes more than all else of a claim.
inline constexpr query read_wanted{"claiming",
                                   "SELECT id,attempt+1,due,key,payload,lease IS NOT NULL FROM "
                                   "(VALUES" TIMING_WHEEL_TWENTY("(?)") ") AS wanted "
                                   "CROSS JOIN timing_wheel_check ON id=wanted.column1 LIMIT ?"};
inline constexpr query claim{"claiming",
                             "UPDATE timing_wheel_check SET fence=?4,lease=?5,attempt=attempt+1 "
                             "WHERE id=?1 AND due<=?2 AND (lease IS NULL OR lease<=?3)"};
inline constexpr query consume{
    "consuming", "DELETE FROM timing_wheel_check WHERE id=?1 AND due<=?2 AND (lease IS NULL OR lease<=?3)"};
inline constexpr query put_back{"putting back",
                                "INSERT INTO timing_wheel_check(id,fence,attempt,due,lease,kind,key,payload) "
                                "VALUES(?1,?2,?3,?4,iif(?5,?6,NULL),?7,?8,?9) ON CONFLICT(kind,key) DO NOTHING"};
// ?1: what was drawn last, as far as this store remembers; ?2: how many.
inline constexpr query draw_fences{"claiming",
                                   "UPDATE timing_wheel_fence SET last=max(last,?1)+?2 WHERE id=1 RETURNING last"};
inline constexpr query complete{"completing", "DELETE FROM timing_wheel_check WHERE id=?1 AND fence=?2 AND lease>1"};
inline constexpr query extend{"extending a lease",
                              "UPDATE timing_wheel_check SET lease=?3 WHERE id=?1 AND fence=?2 AND lease>1"};
inline constexpr query release{"giving a claim back",
                               "UPDATE timing_wheel_check SET lease=iif(?5,?6,NULL),due=?3,attempt=?4 "
                               "WHERE id=?1 AND fence=?2 AND lease>1"};
inline constexpr query bury{"burying",
                            "INSERT INTO timing_wheel_dead(kind,key,payload,due,fence,attempt,error,died) "
                            "SELECT kind,key,payload,due,fence,attempt,?3,?4 FROM timing_wheel_check "
                            "WHERE id=?1 AND fence=?2 AND lease>1"};
inline constexpr query bury_consumed{"burying",
                                     "INSERT INTO timing_wheel_dead(kind,key,payload,due,fence,attempt,error,died) "
                                     "VALUES(?1,?2,?3,?4,?5,?6,?7,?8)"};
inline constexpr query revive{"reviving a dead check",
                              "INSERT INTO timing_wheel_check(due,kind,key,payload) "
                              "SELECT ?2,kind,key,payload FROM timing_wheel_dead WHERE id=?1 "
                              "ON CONFLICT(kind,key) DO NOTHING"};
inline constexpr query delete_dead{"deleting a dead check", "DELETE FROM timing_wheel_dead WHERE id=?1"};

inline constexpr query restore{"restoring checks",
                               "INSERT INTO timing_wheel_check(due,kind,key,payload,fence,attempt) "
                               "VALUES(?1,?2,?3,?4,?5,?6) ON CONFLICT(kind,key) DO NOTHING"};
inline constexpr query raise_fence{"restoring checks", "UPDATE timing_wheel_fence SET last=max(last,?1) WHERE id=1"};

// Reads; those of a window are in range_reader.cpp.
inline constexpr query find{"finding",
                            "SELECT payload,due,fence,attempt,lease,id FROM timing_wheel_check "
                            "WHERE kind=?1 AND key=?2"};
// Steps from kind to kind in the index, and reads of each up to the first that is pending: no orphan that is due later
// has been free for longer.
inline constexpr query read_overdue{
    "looking for what is late",
    "WITH RECURSIVE each(kind) AS (SELECT min(kind) FROM timing_wheel_check UNION ALL "
    "SELECT (SELECT min(kind) FROM timing_wheel_check WHERE kind>each.kind) FROM each WHERE each.kind IS NOT NULL),"
    "first(kind,due) AS (SELECT kind,(SELECT due FROM timing_wheel_check c WHERE c.kind=each.kind AND c.due<=?1 "
    "AND c.lease IS NULL ORDER BY c.due LIMIT 1) FROM each WHERE kind IS NOT NULL) "
    "SELECT kind,due,(SELECT min(max(c.due,c.lease)) FROM timing_wheel_check c WHERE c.kind=first.kind "
    "AND c.due<coalesce(first.due,?1+1) AND c.lease<=?1) FROM first"};
// The table is made by the first pause, so that a file of release 0.1.0 needs no migration for it.
inline constexpr query make_paused_kinds{"pausing a kind",
                                         "CREATE TABLE IF NOT EXISTS timing_wheel_paused_kind("
                                         "kind TEXT PRIMARY KEY CHECK(typeof(kind)='text' AND length(kind)>0),"
                                         "since INTEGER NOT NULL CHECK(typeof(since)='integer')) WITHOUT ROWID"};
inline constexpr query pause{"pausing a kind",
                             "INSERT INTO timing_wheel_paused_kind(kind,since) VALUES(?1,?2) ON CONFLICT DO NOTHING"};
inline constexpr query resume{"resuming a kind", "DELETE FROM timing_wheel_paused_kind WHERE kind=?1"};
inline constexpr query look_for_paused_kinds{
    "looking for paused kinds", "SELECT 1 FROM sqlite_master WHERE type='table' AND name='timing_wheel_paused_kind'"};
// Which of the two tables there are.
inline constexpr query look_for_pauses{"looking for paused kinds",
                                       "SELECT name FROM sqlite_master WHERE type='table' AND name IN "
                                       "('timing_wheel_paused_kind','timing_wheel_drained_node')"};
inline constexpr query paused_kinds{"looking for paused kinds",
                                    "SELECT kind,since FROM timing_wheel_paused_kind ORDER BY kind"};
// As the table above, by the first drain.
inline constexpr query make_drained_nodes{"draining a node",
                                          "CREATE TABLE IF NOT EXISTS timing_wheel_drained_node("
                                          "node TEXT PRIMARY KEY CHECK(typeof(node)='text' AND length(node)>0),"
                                          "since INTEGER NOT NULL,held INTEGER,told INTEGER) WITHOUT ROWID"};
inline constexpr query drain{"draining a node",
                             "INSERT INTO timing_wheel_drained_node(node,since) VALUES(?1,?2) ON CONFLICT DO NOTHING"};
inline constexpr query end_drain{"ending a drain", "DELETE FROM timing_wheel_drained_node WHERE node=?1"};
inline constexpr query tell_drained{"telling what a drained node has",
                                    "UPDATE timing_wheel_drained_node SET held=?2,told=?3 WHERE node=?1"};
inline constexpr query look_for_drained_nodes{
    "looking for drained nodes", "SELECT 1 FROM sqlite_master WHERE type='table' AND name='timing_wheel_drained_node'"};
inline constexpr query drained_nodes{"looking for drained nodes",
                                     "SELECT node,since,held,told FROM timing_wheel_drained_node ORDER BY node"};
inline constexpr query read_clock{"reading the clock",
                                  "SELECT c.revision,c.boot,c.offset,s.version FROM timing_wheel_schema s "
                                  "LEFT JOIN timing_wheel_clock c ON c.id=1 WHERE s.id=1"};
inline constexpr query set_clock{"setting the clock",
                                 "INSERT INTO timing_wheel_clock(id,revision,boot,offset) VALUES(1,?1,?2,?3) "
                                 "ON CONFLICT(id) DO UPDATE SET revision=?1,boot=?2,offset=?3"};

// In a user's own transaction. The clock is read by the statement that writes: one that reads first could not write any
// more once another connection has committed (SQLITE_BUSY_SNAPSHOT). Where the clock was not set since the machine's
// start, nothing happens.
#define TIMING_WHEEL_IS_KNOWN "(SELECT version FROM timing_wheel_schema WHERE id=1)=2"
#define TIMING_WHEEL_CLOCK \
  "(SELECT offset FROM timing_wheel_clock WHERE id=1 AND boot=?1 AND " TIMING_WHEEL_IS_KNOWN ")"
// Ends at the end of time: a sum that overflows would be a floating-point number. With a step it does not overflow: a
// delay is at most 292 years, and a step 2^62 µs.
#define TIMING_WHEEL_DUE "iif(?3=0,?4,(min(?4,9223372036854775807-max(offset,0))+offset+(?3-1))/?3*?3)"

inline constexpr query users_insert{"scheduling",
                                    "INSERT INTO timing_wheel_check(due,kind,key,payload) SELECT " TIMING_WHEEL_DUE
                                    ",?5,?6,?7 FROM " TIMING_WHEEL_CLOCK
                                    " WHERE ?2 IS NOT NULL ON CONFLICT(kind,key) DO NOTHING RETURNING due"};
inline constexpr query users_replace{
    "replacing", "UPDATE timing_wheel_check SET due=" TIMING_WHEEL_DUE ",payload=?7,attempt=0 FROM " TIMING_WHEEL_CLOCK
                 " WHERE ?2 IS NOT NULL AND kind=?5 AND key=?6 AND lease IS NULL RETURNING due"};
inline constexpr query users_cancel{"cancelling",
                                    "DELETE FROM timing_wheel_check WHERE kind=?1 AND key=?2 AND lease IS NULL "
                                    "AND " TIMING_WHEEL_IS_KNOWN " RETURNING attempt"};
inline constexpr query users_reschedule{
    "rescheduling", "UPDATE timing_wheel_check SET due=" TIMING_WHEEL_DUE " FROM " TIMING_WHEEL_CLOCK
                    " WHERE ?2 IS NOT NULL AND kind=?5 AND key=?6 AND lease IS NULL"};

/// All that touch our tables, for the test that none looks through a whole table.
inline constexpr query on_tables[] = {
    insert,    insert_some,   replace,       find_due,     cancel,          reschedule, read_wanted,
    claim,     consume,       draw_fences,   put_back,     complete,        extend,     release,
    bury,      bury_consumed, revive,        delete_dead,  read_overdue,    find,       read_clock,
    set_clock, users_insert,  users_replace, users_cancel, users_reschedule};

}  // namespace sql

#undef TIMING_WHEEL_CLOCK
#undef TIMING_WHEEL_IS_KNOWN
#undef TIMING_WHEEL_DUE
#undef TIMING_WHEEL_FIVE
#undef TIMING_WHEEL_TWENTY

}  // namespace timing_wheel::durable::sqlite
