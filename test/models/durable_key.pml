/* One key of the durable checks over its lives, on PostgreSQL: sql.hpp, transaction.cpp, users_transaction.cpp,
 * node.cpp and held_leases.cpp in src/durable. docs/durable_protocol.md says which statement decides which race.
 *
 * Nodes claim the row and run its leased handler (LEASED), or take it for a transactional one (TAKERS). Clients insert,
 * cancel and move; a move is a reschedule or a replacement, which look alike to the row. A statement is two steps: its
 * snapshot; then the lock of the row, with a second look at what is there by then. Only who has the lock has an image
 * that is not committed. Whoever comes to a locked row waits, or leaves it out. A row that was deleted and written anew
 * is another one for a statement that waits.
 *
 * At any step a commit's answer may be lost, and the commit be done later, or not at all; the server may end a
 * transaction; a node may die, or stand still for any time. There is no clock: a deadline comes, and a lease ends, at
 * any time; but no lease ends as long as its owner's clock allows a run to begin (durable_outage.pml has these times).
 * With CRASH the server dies, too, and with it all transactions; the sequence may begin again after the last number
 * whose drawing was synced.
 *
 * I1: A key has one check at most. A check leaves the table by a cancel, or by the end of a run of its own.
 * I2: Fences rise: a claim has a higher one than each run before, undone ones and those of former checks included, and
 *     no two runs have the same. With CRASH: than each leased run, and each that was committed.
 * I3: After `cancelled` no leased run begins. `finished` is never said of a key that had a check all the time.
 * I4: What a transactional handler does stays once, with the end of its check; nothing stays of a cancelled check.
 * I5: No run begins before the deadline that its check was given last.
 * I7: An end or an extension is accepted only of the newest claim, and of no claim that was given up.
 * I8: One call changes one check, once.
 * I9: Who looks at the clock and may begin has its lease. (Who then stands still may lose it: I2, I3, I5 hold.)
 *
 * right: LEASED=2 CALLS=1 CLAIMS=2
 * right: LEASED=1 TAKERS=1 CALLS=1
 * right: LEASED=0 TAKERS=2 CALLS=2 AGAIN=1
 * right: LEASED=1 TAKERS=1 CALLS=1 CRASH
 * large right: LEASED=1 CLIENTS=2 CALLS=2 CLAIMS=2
 * large right: LEASED=0 TAKERS=2 CLIENTS=2 CALLS=2 CLAIMS=2
 * large right: LEASED=2 CALLS=2
 * large right: LEASED=1 TAKERS=1 CALLS=2 AGAIN=1
 * large right: LEASED=2 CALLS=1 CRASH
 * wrong: CLAIMS_EARLY: a claim takes what is not due
 * wrong: CLAIMS_LIVE_LEASES: a claim takes what others hold
 * wrong: NO_RECHECK: a claim does not look again when it has the lock
 * wrong: ORPHAN_OF_THE_SNAPSHOT LEASED=1 TAKERS=1: a claim says orphaned of what its snapshot has
 * wrong: NO_LOOK_AT_THE_CLOCK: a run begins without a look at the clock
 * wrong: BEGINS_UNANSWERED LEASED=1: a run begins although the answer to its claim was lost
 * wrong: FENCE_OF_THE_ROW LEASED=0 TAKERS=2: a claim counts the row's fence up
 * wrong: FENCE_OF_THE_ID LEASED=1 CLIENTS=2: fences begin with the id, which an insert draws before it looks at the key
 * wrong: DRAWS_EARLY: a claim draws its fence before it has the lock
 * wrong: CACHE CLAIMS=4: the sequence has a cache
 * wrong: FORGETS_CLAIMS CRASH: a claim's commit does not wait for the disk
 * wrong: GIVES_BACK_WHAT_MAY_BEGIN LEASED=1: a claim goes back while its run waits for a thread, and may begin
 * wrong: COMPLETES_WITHOUT_FENCE: who has lost its lease may end the check
 * wrong: COMPLETES_BY_KEY: a check is ended by its key
 * wrong: RETRIES_WITHOUT_FENCE: who has lost its lease may give the check back
 * wrong: RETRIES_WHAT_WAS_GIVEN_UP: a retry that is repeated, since its answer was lost, undoes a move
 * wrong: EXTENDS_WITHOUT_FENCE: who has lost its lease may extend that of another
 * wrong: EXTENDS_WHAT_WAS_GIVEN_UP: a late extension takes what was given up
 * wrong: ORPHAN_IS_PENDING CLAIMS=2: an orphan that is given back may be cancelled
 * wrong: ORPHAN_IS_PENDING LEASED=1 TAKERS=1: a transactional node puts it back so
 * wrong: ORPHAN_KEEPS_ITS_LEASE: an orphan that is given up can be extended
 * wrong: EFFECT_OUTSIDE LEASED=0 TAKERS=2: the handler's own statements are not in the transaction of the take
 * wrong: CANCELS_RUNNING LEASED=1: a cancel deletes what has a lease
 * wrong: CANCELS_ENDED LEASED=1: a cancel deletes what has a lease that has ended
 * wrong: CANCELS_WITHOUT_RECHECK LEASED=1: a cancel that has waited deletes what has a lease by now
 * wrong: MOVES_RUNNING LEASED=1: a move of what has a lease
 * wrong: MOVES_WITHOUT_RECHECK LEASED=1: a move that has waited moves what has a lease by now
 * wrong: NO_SECOND_LOOK LEASED=0 TAKERS=1: a cancel that has waited for a row that was put back says finished
 * wrong: NO_UNIQUE_KEY LEASED=1: two checks have one key
 * wrong: REPEATS_UNKNOWN LEASED=1: a call whose commit's answer was lost is done again
 */

#ifndef LEASED
#define LEASED 2
#endif
#ifndef TAKERS
#define TAKERS 0
#endif
#ifndef CLIENTS
#define CLIENTS 1
#endif
#ifndef CALLS
#define CALLS 2 /* of all clients */
#endif
#ifndef CLAIMS
#define CLAIMS 3 /* numbers that are drawn; takes, too */
#endif
#ifndef AGAIN
#define AGAIN 0 /* how often a transactional handler may schedule its key anew */
#endif
#define NODES (LEASED + TAKERS)

/* ---- The row, as it is committed; all is 0 if there is none ---- */

#define PENDING 0  /* lease IS NULL */
#define GIVEN_UP 1 /* of an orphan: the first microsecond */
#define LIVE 2
#define ENDED 3

byte id = 1;
byte fence = 0;
byte lease = PENDING;
bool future = true; /* it is not due yet */

/* ---- What the holder of its lock has written ---- */

#define SERVER 9 /* a transaction whose client has gone, or waits for nothing but its commit */
byte locked = 0;

#define INSERT 1
#define CANCEL 2
#define MOVE 3
#define CLAIM 4
#define OVER 5 /* complete, bury */
#define GIVE 6 /* retry */
#define TAKE 7
#define PUT_BACK 8
byte what = 0;
byte new_id = 0;
byte new_fence = 0;
byte new_lease = PENDING;
bool new_future = false;
byte call_of = 0;
byte by = 0; /* the fence of the claim that ends; of the take */

/* ---- What the processes know ---- */

bool seen[NODES + CLIENTS] = false; /* the row is in the statement's snapshot, and was not deleted since */
byte my_id[NODES] = 0;
byte my_fence[NODES] = 0;
bool orphaned[NODES] = false;
bool holds[NODES] = false; /* its claim is committed, and it knows that */
bool valid[NODES] = false; /* its clock allows a run to begin */
byte sent[NODES] = 0;      /* the fence of an extension that is under way */

byte drawn = 0; /* from the sequence */
byte ids = 1;
byte calls = 0;

/* ---- What only the invariants know ---- */

bool is_void[NODES] = false;   /* I3: the check that it has claimed was cancelled */
bool absent[CLIENTS] = false;  /* I3: the key had no check at a time of the call */
bool effect = false;           /* I4: of the check that stands */
bool early = true;             /* I5: the last deadline that a client has set has not come */
bool given_up = false;         /* I7: the newest claim */
byte highest = 0;              /* I2: fence of a run that has begun */
byte changed = 0;              /* I8: a bit for each call */
#ifdef CRASH
byte synced = 0; /* the last number that is safe */
#endif
#ifdef FORGETS_CLAIMS
bool unsynced = false;
byte old_fence = 0;
byte old_lease = PENDING;
#endif

#define is_held(lease) (lease == LIVE || lease == ENDED)
#ifdef CLAIMS_LIVE_LEASES
#define is_free(lease) (true)
#else
#define is_free(lease) (lease != LIVE)
#endif
#ifdef CLAIMS_EARLY
#define is_due (true)
#else
#define is_due (!future)
#endif
#define claimable (id != 0 && is_due && is_free(lease))
#ifdef NO_RECHECK
#define still_claimable (id != 0)
#else
#define still_claimable claimable
#endif

/* ---- The server ---- */

inline make_void(n) { is_void[n] = (is_void[n] || my_id[n] == id) }

inline all_make_void() {
  make_void(0);
#if LEASED + TAKERS > 1
  make_void(1);
#endif
  skip
}

inline nobody_sees_it() {
  seen[0] = false;
  seen[1] = false;
#if LEASED + TAKERS + CLIENTS > 2
  seen[2] = false;
#endif
#if LEASED + TAKERS + CLIENTS > 3
  seen[3] = false;
#endif
  skip
}

inline note_absence() {
  absent[0] = true;
#if CLIENTS > 1
  absent[1] = true;
#endif
  effect = false;
  given_up = false
}

inline has_an_effect() {
  assert(!effect); /* I4 */
  effect = true
}

inline undo() {
  locked = 0; what = 0; new_id = 0; new_fence = 0; new_lease = PENDING; new_future = false; call_of = 0; by = 0
}

inline commit() {
  assert(what != INSERT || id == 0);                                            /* I1 */
  assert((what != OVER && what != GIVE) || (by == fence && is_held(lease)));    /* I1, I7 */
  assert((what != OVER && what != GIVE) || !given_up);                          /* I7 */
  assert(what != CANCEL || !effect);                                            /* I4 */
  assert(call_of == 0 || (changed & (1 << call_of)) == 0);                      /* I8 */
  changed = (call_of == 0 -> changed : changed | (1 << call_of));
  if
  :: what == INSERT || what == MOVE -> early = true
  :: what == CANCEL -> early = false; all_make_void(); nobody_sees_it()
  :: what == CLAIM -> given_up = false
  :: what == OVER -> early = false; nobody_sees_it()
  :: what == GIVE -> given_up = true
  :: what == TAKE ->
#ifdef EFFECT_OUTSIDE
     effect = false;
#else
     has_an_effect(); effect = false;
#endif
     early = new_future; given_up = false; nobody_sees_it()
  :: what == PUT_BACK -> nobody_sees_it()
  fi;
#ifdef CRASH
  if
  :: what == TAKE -> highest = (by > highest -> by : highest)
  :: else
  fi;
#ifdef FORGETS_CLAIMS
  unsynced = (what == CLAIM);
  old_fence = (unsynced -> fence : 0);
  old_lease = (unsynced -> lease : PENDING);
  synced = (unsynced -> synced : drawn);
#else
  synced = drawn;
#endif
#endif
  id = new_id; fence = new_fence; lease = new_lease; future = new_future;
  if
  :: id == 0 -> note_absence()
  :: else
  fi;
  undo()
}

inline write(who, as_what, its_id, its_fence, its_lease, its_future) {
  locked = who; what = as_what;
  new_id = its_id; new_fence = its_fence; new_lease = its_lease; new_future = its_future
}

#define may_begin(n) (valid[n] && my_fence[n] == fence)
#if LEASED == 0
#define lease_may_end (true)
#elif LEASED == 1
#define lease_may_end (!may_begin(0))
#else
#define lease_may_end (!may_begin(0) && !may_begin(1))
#endif

#if defined(EXTENDS_WITHOUT_FENCE)
#define may_extend(n) (id != 0 && my_id[n] == id && is_held(lease))
#elif defined(EXTENDS_WHAT_WAS_GIVEN_UP)
#define may_extend(n) (id != 0 && fence == sent[n])
#else
#define may_extend(n) (id != 0 && fence == sent[n] && is_held(lease))
#endif

inline extend(n) {
  if
  :: may_extend(n) ->
     assert(fence == sent[n] && !given_up); /* I7 */
     lease = LIVE;
     valid[n] = (holds[n] && my_fence[n] == sent[n])
  :: else
  fi;
  sent[n] = 0
}

/* An extension is a transaction of its own, and leaves out what is locked. It may be late. */
#define keeper_and_clock_of(n)                                                  \
  :: atomic { holds[n] && sent[n] == 0 -> sent[n] = my_fence[n] }               \
  :: atomic { sent[n] != 0 && locked == 0 -> extend(n) }                        \
  :: atomic { valid[n] -> valid[n] = false }

active proctype server() {
end_server:
  do
  :: atomic { future || early -> future = false; early = false }
  :: atomic { lease == LIVE && lease_may_end -> lease = ENDED }
  :: atomic { locked != 0 -> undo() }
  :: atomic { locked == SERVER -> commit() }
#if LEASED > 0
  keeper_and_clock_of(0)
#endif
#if LEASED > 1
  keeper_and_clock_of(1)
#endif
#if defined(FORGETS_CLAIMS)
  :: atomic {
       unsynced -> undo(); drawn = synced;
       fence = old_fence; lease = old_lease; unsynced = false; old_fence = 0; old_lease = PENDING
     }
#elif defined(CRASH)
  :: atomic { drawn != synced -> undo(); drawn = synced }
#endif
  od
}

/* ---- What claims and takes have in common ---- */

#define me (_pid - 1)
#define has_lock (locked == me + 1)

inline forget() {
  my_id[me] = 0; my_fence[me] = 0; orphaned[me] = false; holds[me] = false; valid[me] = false; is_void[me] = false
}

#ifdef CACHE
byte spare[NODES] = 0;
#endif

inline draw() {
#if defined(FENCE_OF_THE_ROW) || defined(FENCE_OF_THE_ID)
  drawn++;
  my_fence[me] = fence + 1
#elif defined(CACHE)
  if
  :: spare[me] != 0 -> my_fence[me] = spare[me]; spare[me] = 0
  :: else -> my_fence[me] = drawn + 1; spare[me] = drawn + 2; drawn = drawn + 2
  fi
#elif defined(DRAWS_EARLY)
  skip
#else
  drawn++;
  my_fence[me] = drawn
#endif
}

#ifdef CACHE
#define may_draw (drawn < CLAIMS || spare[me] != 0)
#else
#define may_draw (drawn < CLAIMS)
#endif

inline take_snapshot() {
  seen[me] = true;
#ifdef DRAWS_EARLY
  drawn++;
  my_fence[me] = drawn;
#endif
#ifdef ORPHAN_OF_THE_SNAPSHOT
  orphaned[me] = (lease != PENDING);
#endif
  skip
}

/* What is locked is left out. */
inline lock_row() {
  seen[me] = false;
  my_id[me] = id;
#ifndef ORPHAN_OF_THE_SNAPSHOT
  orphaned[me] = (lease != PENDING);
#endif
  draw();
  assert(my_fence[me] > highest) /* I2 */
}

inline begin_run() {
  assert(my_fence[me] != highest); /* I2 */
  highest = (my_fence[me] > highest -> my_fence[me] : highest)
}

#ifdef ORPHAN_IS_PENDING
#define lease_of_a_retry PENDING
#elif defined(ORPHAN_KEEPS_ITS_LEASE)
#define lease_of_a_retry (orphaned[me] -> ENDED : PENDING)
#else
#define lease_of_a_retry (orphaned[me] -> GIVEN_UP : PENDING)
#endif

/* ---- A node with a leased handler ---- */

#if LEASED > 0

#define my_row (id != 0 && id == my_id[me])
#define my_claim (my_row && fence == my_fence[me] && is_held(lease))
#if defined(COMPLETES_WITHOUT_FENCE)
#define ends_it (how == OVER -> my_row && is_held(lease) : my_claim)
#elif defined(COMPLETES_BY_KEY)
#define ends_it (how == OVER -> id != 0 && is_held(lease) : my_claim)
#elif defined(RETRIES_WITHOUT_FENCE)
#define ends_it (how == GIVE -> my_row && is_held(lease) : my_claim)
#elif defined(RETRIES_WHAT_WAS_GIVEN_UP)
#define ends_it (how == GIVE -> my_row && fence == my_fence[me] : my_claim)
#else
#define ends_it my_claim
#endif

/* A claimed run waits for a thread. Either a thread takes it out of the queue, and looks at the clock; or the node takes
 * it out, and gives the claim back: under one lock, so never both. */
active [LEASED] proctype leased() {
  byte how;
end_idle:
  atomic { may_draw && claimable -> take_snapshot() };
  atomic {
    if
    :: locked == 0 && seen[me] && still_claimable ->
       lock_row(); write(me + 1, CLAIM, id, my_fence[me], LIVE, future)
    :: else -> seen[me] = false; forget(); goto end_idle
    fi
  };
  if
  :: atomic { has_lock -> commit(); holds[me] = true; valid[me] = true }
#ifdef BEGINS_UNANSWERED
  :: atomic { has_lock -> locked = SERVER; holds[me] = true; valid[me] = true }
#else
  :: atomic { has_lock -> locked = SERVER; forget(); goto end_idle }
#endif
  :: atomic { !has_lock -> forget(); goto end_idle }
  fi;
claimed:
  if
#ifdef NO_LOOK_AT_THE_CLOCK
  :: atomic { true ->
#else
  :: atomic { valid[me] ->
#endif
#ifndef BEGINS_UNANSWERED
       assert(lease == LIVE && fence == my_fence[me]) /* I9 */
#endif
     };
     atomic {
       assert(!is_void[me]);              /* I3 */
       assert(id != my_id[me] || !early); /* I5 */
       begin_run();
       if
       :: how = OVER
       :: how = GIVE
       fi
     }
  :: atomic { how = GIVE }
  :: atomic { forget(); goto end_idle } /* it dies */
  fi;
end_ending:
  if
  :: atomic { locked == 0 && ends_it ->
       if
       :: how == OVER -> write(me + 1, OVER, 0, 0, PENDING, false)
       :: how == GIVE -> write(me + 1, GIVE, id, fence, lease_of_a_retry, false)
       fi;
       by = my_fence[me]
     }
  :: atomic { locked == 0 && !ends_it -> how = 0; forget(); goto end_idle } /* lost */
  :: atomic { how = 0; forget(); goto end_idle }
  fi;
  if
#ifdef GIVES_BACK_WHAT_MAY_BEGIN
  :: atomic { has_lock && how == GIVE -> commit(); how = 0; goto claimed }
#endif
  :: atomic { has_lock -> commit(); how = 0; forget(); goto end_idle }
  :: atomic { has_lock -> locked = SERVER; goto end_ending }
  :: atomic { !has_lock -> goto end_ending }
  fi
}
#endif

/* ---- A node with a transactional handler ---- */

#if TAKERS > 0
active [TAKERS] proctype taker() {
end_idle:
  atomic { may_draw && claimable -> take_snapshot() };
  atomic {
    if
    :: locked == 0 && seen[me] && still_claimable ->
       lock_row(); by = my_fence[me]; write(me + 1, TAKE, 0, 0, PENDING, false)
    :: else -> seen[me] = false; forget(); goto end_idle
    fi
  };
  atomic {
    assert(!has_lock || !early); /* I5 */
#ifndef CRASH
    begin_run();
#endif
#ifdef EFFECT_OUTSIDE
    has_an_effect();
#endif
    skip
  };
  if
  :: atomic { has_lock -> locked = SERVER }
  :: atomic {
       has_lock && AGAIN != 0 && ids <= CALLS + AGAIN ->
       locked = SERVER; ids++; new_id = ids; new_future = true
     }
  :: atomic { has_lock -> locked = SERVER; write(SERVER, PUT_BACK, my_id[me], my_fence[me], lease_of_a_retry, false) }
  :: atomic { !has_lock } /* its statement fails */
  fi;
  atomic { forget(); goto end_idle }
}
#endif

/* ---- Who schedules, cancels and moves; in a transaction that may be open for long, or undone ---- */

#if defined(CANCELS_RUNNING)
#define may_change (op == MOVE -> lease == PENDING : true)
#elif defined(CANCELS_ENDED)
#define may_change (op == MOVE -> lease == PENDING : lease != LIVE)
#elif defined(MOVES_RUNNING)
#define may_change (op == MOVE -> true : lease == PENDING)
#else
#define may_change (lease == PENDING)
#endif
#if defined(CANCELS_WITHOUT_RECHECK)
#define may_still_change (op == MOVE -> lease == PENDING : true)
#elif defined(MOVES_WITHOUT_RECHECK)
#define may_still_change (op == MOVE -> true : lease == PENDING)
#else
#define may_still_change may_change
#endif
#define mine absent[me - NODES]

active [CLIENTS] proctype client() {
  byte op;
  byte call;
#ifdef FENCE_OF_THE_ID
  byte its_id;
#endif
end_idle:
  atomic {
    calls < CALLS -> calls++; call = calls; mine = (id == 0);
    if
    :: op = INSERT
    :: op = CANCEL
    :: op = MOVE
    fi
  };
again:
  if
  :: op == INSERT ->
#ifdef FENCE_OF_THE_ID
     atomic { ids++; its_id = ids };
#endif
     atomic {
       locked == 0 ->
       if
#ifdef NO_UNIQUE_KEY
       :: true ->
#else
       :: id == 0 ->
#endif
#ifdef FENCE_OF_THE_ID
          write(SERVER, INSERT, its_id, its_id * 8, PENDING, true);
          its_id = 0;
#else
          ids++;
          write(SERVER, INSERT, ids, 0, PENDING, true);
#endif
          call_of = call
       :: else
       fi
     }
  :: op != INSERT ->
     atomic { seen[me] = (id != 0 && may_change) };
     atomic {
       !seen[me] || locked == 0 ->
       if
       :: seen[me] && may_still_change ->
          seen[me] = false;
          if
          :: op == CANCEL -> write(SERVER, CANCEL, 0, 0, PENDING, false)
          :: op == MOVE -> write(SERVER, MOVE, id, fence, lease, true)
          fi;
          call_of = call
       :: else -> seen[me] = false; goto look
       fi
     }
  fi;
#ifdef REPEATS_UNKNOWN
  if
  :: goto again
  :: true
  fi;
#endif
  atomic { goto over };
look:
#ifndef NO_SECOND_LOOK
  if
  :: atomic { id != 0 && lease == PENDING -> goto again }
  :: atomic { id != 0 && lease != PENDING -> goto over } /* running */
  :: atomic { id == 0 }
  fi;
#endif
  atomic { assert(mine) /* I3 */ };
over:
  atomic { op = 0; call = 0; mine = false; goto end_idle }
}
