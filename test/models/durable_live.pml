/* That every check is met: which rows a node reads, remembers and forgets (src/durable/node/machine.cpp).
 *
 * One key, for ever: as soon as its check is gone, a new one is scheduled. This node looks at each poll, unless it is
 * stopped, for STALL polls at most. Another node claims, extends, ends and dies as it likes, and a user locks the row,
 * moves it, or has inserted it in a transaction that commits late. Claims of this node may be refused, fail, or be done
 * without an answer. What was committed later than a look-ahead after its deadline is met by a sweep only (LATE). Each
 * other look may be broken off before it comes to the row (BREAKS).
 *
 * Times are relative, in polls. An age is the time since a deadline plus FUTURE, and ends at OLD.
 *
 * A check that is due, that nobody holds, and that nobody has locked is claimed within a poll; with LATE, until the
 * next sweep is over; with BREAKS, within two polls. So it runs, since all but this node may die.
 *
 * right:
 * right: LATE SWEEP=4
 * right: BREAKS
 * large right: LOOK_AHEAD=3 LEASE=6 STALL=9
 * wrong: NO_MISSED_CLAIM: a claim that was refused is forgotten
 * wrong: NO_MISSED_END: a run whose end was refused is forgotten
 * wrong: NO_MISSED_LEASE: what another node holds beyond the look-ahead is forgotten
 * wrong: NO_PASSED: after a stop the node begins a look-ahead before its clock
 * wrong: PASSED_THE_WINDOW: and it then begins at the end of the look-ahead of the last pass
 * wrong: NO_LOOK_BACK: the node begins at its clock
 * wrong: NO_LOOK_AT_WHAT_IS_KNOWN: a new deadline of a row that is known is not seen
 * wrong: CLAIMS_PENDING_ONLY: what a dead node has held is left
 * wrong: ASKS_ONCE: a claim that was refused is not given up
 * wrong: LATE SWEEP=4 NO_SWEEP: nobody sweeps
 * wrong: BREAKS NO_REST: what a look has not come to is forgotten
 */

#ifndef LOOK_AHEAD
#define LOOK_AHEAD 2
#endif
#ifndef LEASE
#define LEASE 4
#endif
#ifndef STALL
#define STALL 6
#endif
#ifdef LATE
#define MOST_LATE (SWEEP + 1)
#elif defined(BREAKS)
#define MOST_LATE 2
#else
#define MOST_LATE 1
#endif
#define FUTURE (LOOK_AHEAD + 2)
#define OLD (FUTURE + LOOK_AHEAD + STALL + 2)

/* The row. */
#define NOBODY 0
#define THIS 1
#define OTHER 2
bool is_there = false;
bool is_committed = false;
byte age = 0;
byte holder = NOBODY;
byte left = 0; /* of the lease */
bool is_locked = false;

/* This node. */
#define UNKNOWN 0
#define WAITING 1
#define READY 2
#define HELD 3
#define ASKED 4 /* only while the store answers */
byte where = UNKNOWN;
byte its_age = 0; /* by the deadline that it knows */
byte its_left = 0;
byte missed = 0;  /* an age; 0: nothing was */
byte since = 0;   /* the last pass */
#define LOOKS 0
#define ASKS 1
#define RESTS 2
byte turn = LOOKS;
byte stopped = 0;
#ifdef BREAKS
bool is_broken = false; /* the last look */
#endif
#ifdef LATE
byte sweep = 0; /* until the next */
#endif

byte late = 0;

#define less(x) x = (x == 0 -> 0 : x - 1)
#define more(x) x = (x >= OLD -> OLD : x + 1)
#define later(x, y) (x > y -> x : y)
#define is_due (age >= FUTURE)
#ifdef CLAIMS_PENDING_ONLY
#define is_free (holder == NOBODY)
#else
#define is_free (left == 0)
#endif
#define claimable (is_committed && is_due && is_free && !is_locked)

/* ---- Time ---- */

inline tick() {
  less(left);
  less(its_left);
  age = (is_there -> (age >= OLD -> OLD : age + 1) : 0);
  its_age = (where == UNKNOWN -> 0 : (its_age >= OLD -> OLD : its_age + 1));
  missed = (missed == 0 -> 0 : (missed >= OLD -> OLD : missed + 1));
  more(since);
#ifdef LATE
  less(sweep);
#endif
  late = ((is_committed && is_due && left == 0 && !is_locked && turn == RESTS && where != HELD) -> late + 1 : 0);
  assert(late <= MOST_LATE);
  turn = (turn == RESTS -> LOOKS : turn)
}

inline gone() {
  is_there = false; is_committed = false; age = 0; holder = NOBODY; left = 0; is_locked = false; late = 0
}

active proctype clock() {
end_of_time:
  do
  :: atomic { turn == RESTS && stopped == 0 ->
       left = ((where == HELD && holder == THIS) -> LEASE + 1 : left); /* the keeper */
       tick()
     }
  :: atomic { turn == LOOKS && stopped < STALL -> stopped++; tick() }
  od
}

/* ---- The others: a node, and a user ---- */

inline new_deadline() {
  late = 0;
  if
  :: age = FUTURE
  :: age = FUTURE - LOOK_AHEAD + 1
  :: age = FUTURE - LOOK_AHEAD - 1
  fi
}

active proctype others() {
end_others:
  do
  :: atomic { claimable -> holder = OTHER; left = LEASE; late = 0 }
  :: atomic { holder == OTHER && left != LEASE && !is_locked -> left = LEASE }
  :: atomic { holder == OTHER && !is_locked -> gone() }
  :: atomic { holder == OTHER && !is_locked -> holder = NOBODY; left = 0; new_deadline() }
  :: atomic { !is_there && where == UNKNOWN -> is_there = true; new_deadline() } /* another row */
#ifdef LATE
  :: atomic { is_there && !is_committed -> is_committed = true }
#else
  :: atomic { is_there && !is_committed && age <= FUTURE + LOOK_AHEAD -> is_committed = true }
#endif
  :: atomic { is_there && !is_committed -> gone() }
  :: atomic { is_committed && !is_locked -> is_locked = true; late = 0 }
  :: atomic { is_locked -> is_locked = false }
  :: atomic { is_committed && holder == NOBODY && !is_locked -> new_deadline() }
  :: atomic { is_committed && holder == NOBODY && !is_locked -> gone() }
  od
}

/* ---- This node ---- */

inline forget() { where = UNKNOWN; its_age = 0; its_left = 0 }

inline learn() {
  where = ((is_due && left == 0) -> READY : WAITING);
  its_age = age;
  its_left = left
}

#ifdef NO_LOOK_BACK
#define back FUTURE
#else
#define back (FUTURE + LOOK_AHEAD)
#endif
#ifdef NO_PASSED
#define reaches_back back
#elif defined(PASSED_THE_WINDOW)
#define reaches_back later(back, (since + FUTURE - LOOK_AHEAD))
#else
#define reaches_back (since + back)
#endif
#if defined(LATE) && !defined(NO_SWEEP)
#define is_read (age <= reaches_back || age <= missed || sweep == 0)
#else
#define is_read (age <= reaches_back || age <= missed)
#endif

#define waits (where == WAITING || where == READY)

inline look() {
  bool found;
  found = (is_committed && is_read && age > FUTURE - LOOK_AHEAD);
  missed = 0;
  since = 0;
#ifdef LATE
  sweep = (sweep == 0 -> SWEEP : sweep);
#endif
#ifdef BREAKS
  if
  :: found && !is_broken ->
     is_broken = true;
     found = false;
#ifndef NO_REST
     missed = age
#endif
  :: is_broken = false
  fi;
#endif
  if
  :: found && left >= LOOK_AHEAD && (where == UNKNOWN || waits) ->
#ifndef NO_MISSED_LEASE
     missed = age;
#endif
     forget()
  :: found && left < LOOK_AHEAD && where == UNKNOWN -> learn()
#ifndef NO_LOOK_AT_WHAT_IS_KNOWN
  :: found && left < LOOK_AHEAD && waits -> learn()
#endif
  :: else
  fi;
  found = false;
  where = ((where == WAITING && its_age >= FUTURE && its_left == 0) -> READY : where)
}

inline miss() { missed = later(missed, its_age) }

active proctype node() {
end_node:
  do
  :: atomic { turn == LOOKS -> stopped = 0; look(); turn = ASKS }
  :: atomic { turn == ASKS && where != READY -> turn = RESTS }
  :: atomic { turn == ASKS && where == READY && claimable ->
       turn = RESTS; where = HELD; its_age = age; its_left = 0; holder = THIS; left = LEASE }
  :: atomic { turn == ASKS && where == READY && claimable ->
       turn = RESTS; late = 0; holder = THIS; left = LEASE /* unanswered */
     }
  :: atomic { turn == ASKS && where == READY && !claimable ->
       turn = RESTS;
#ifndef NO_MISSED_CLAIM
       miss();
#endif
#ifdef ASKS_ONCE
       where = ASKED
#else
       forget()
#endif
     }
  :: atomic { turn == ASKS && where == HELD && !(is_locked && holder == THIS) ->
       turn = RESTS;
       if
       :: holder == THIS -> gone(); forget()
       :: holder == THIS -> holder = NOBODY; left = 0; new_deadline(); learn()
       :: holder == THIS -> gone() /* unanswered */
       :: holder == THIS -> holder = NOBODY; left = 0; new_deadline()
       :: holder != THIS ->
#ifndef NO_MISSED_END
          miss();
#endif
          forget()
       fi
     }
  od
}
