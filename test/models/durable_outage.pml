/* A store that is away for all and comes back, and leases that nobody could extend meanwhile: the lease keeper, the
 * contact of a node with its store, and `orphans_until`.
 *
 * One node, the owner, claims a row, and holds it until the end of its run is written. The other one may write, read,
 * and ask for the row at any time. The store is away at any time, for any time, and again and again. A call that is
 * under way then waits, or fails; and what has failed may have been done, or be done later. When the store is back, it
 * stays for as long as the keeper needs (STAYS). Reads may be answered while the store is away, as by SQLite while its
 * file is locked.
 *
 * All times are relative, in twelfths of a lease: each counts up or down to an end, so a history may have any length.
 * While the store is there, the owner's calls take no longer than LATENCY; those of the other node take any time.
 *
 * No run twice: the other node never claims what the owner, which is alive, has begun and has not written the end of;
 * and the owner begins nothing that another node has claimed.
 * With DIES, the owner may die, and the other node asks as soon as it may: it claims no later than a hold and
 * a pause after the store is there and the lease has ended. With FAILS, calls never wait: they fail while the store is
 * away, and the other node, which reads all the time, sees each outage.
 *
 * right:
 * right: DIES
 * right: FAILS RETRY=3
 * large right: LATENCY=1 SILENCE=3 PAUSE=4
 * wrong: UNTIL=2: an ask for an ended lease holds for a sixth of a lease, after half of one without an answer
 * wrong: NO_UNTIL: a statement that an outage has delayed claims ended leases
 * wrong: FORGETS_SILENCE: a node that has written nothing for long asks for ended leases at once
 * wrong: SILENCE_OF_THE_ROW: after a long silence only the first ask claims nothing, whatever was written before it
 * wrong: FAILS RETRY=3 NO_HOLD_AFTER_A_FAILURE: a call that has failed is no sign of an outage
 * wrong: COUNTS_FROM_THE_ANSWER: an extension is due a third of a lease after the answer, not after the asking
 * wrong: EXTENDS_LIVE_LEASES_ONLY: an extension is refused when the lease has ended
 * wrong: KEEPER_STOPS_AT_THE_END: the keeper lets go when a run has ended, before that is written
 * wrong: RETRY=3: the keeper tries again after a quarter of a lease
 * wrong: KEEPER_HANGS: a call of the keeper's does not end when the store is back
 * wrong: LOWERS: an extension writes what its transaction's begin gives, so one that runs late takes a lease back
 * wrong: BEGINS_UNTIL=LEASE: a run begins while it has its lease, even if an extension is overdue
 * wrong: NO_LOOK_AT_THE_CLOCK: a run begins although its claim was answered after the lease
 * wrong: STAYS=0: a store that goes away again before the keeper had a chance
 * wrong: DIES HOLDS_FOR_EVER: each answer begins a new hold
 */

#define LEASE 12
#define THIRD 4 /* an extension is due; the hold of a node whose contact is new */
#define SIXTH 2 /* an answer that took longer is a sign of an outage */
#ifndef SILENCE
#define SILENCE 6 /* without an answer to a write: a longer one may have been an outage */
#endif
#ifndef PAUSE
#define PAUSE 2 /* the hold after a silence */
#endif
#ifndef UNTIL
#define UNTIL 1 /* from the asking on: later, a statement claims no ended lease */
#endif
#ifndef RETRY
#define RETRY 1 /* of the keeper, while the store fails */
#endif
#ifndef BEGINS_UNTIL
#define BEGINS_UNTIL THIRD /* from the asking for its claim on */
#endif
#ifndef LATENCY
#define LATENCY 0
#endif
#ifndef STAYS
#define STAYS (RETRY + 2 * LATENCY + 1)
#endif

/* The row, and its store. */
#define NOBODY 0
#define OWNER 1
#define OTHER 2
#define GONE 3
byte holder = NOBODY;
byte left = 0; /* of the lease */
bool away = false;
byte there_for = STAYS;

/* Where a call is. */
#define NOWHERE 0
#define SENT 1    /* on its way */
#define BEGUN 2   /* the store has read its clock for it */
#define WRITTEN 3 /* the answer is on its way */

byte call = NOWHERE;  /* the owner's */
byte age = 0;         /* since it was sent */
byte in_store = 0;    /* how long the store was there meanwhile */
bool broken = false;  /* the store was away meanwhile */
byte due = 0;         /* the time until the next extension */
bool holds = false;
bool runs = false;
bool is_dead = false;
bool old = false;     /* an extension that the owner has given up, and that may still be done */
byte old_age = 0;

#define NO_CONTACT 255
#define READ 1
#define WRITE 2
#define ASK 3
byte its_call = NOWHERE; /* the other node's */
byte what = 0;
byte its_age = 0;
bool its_broken = false;
bool may_claim = false;  /* an ended lease */
byte hold = NO_CONTACT;
byte pause = 0;          /* of the row */
byte silence = SILENCE + 1;
byte failed = 0;
byte late = 0;

#define less(x) x = (x == 0 -> 0 : x - 1)
#define more(x, most) x = (x >= most -> most : x + 1)

/* ---- Time ---- */

#ifdef KEEPER_HANGS
#define owner_has_time (true)
#else
#define owner_has_time (away || call == NOWHERE || !holds || in_store < LATENCY)
#endif
#ifdef KEEPER_STOPS_AT_THE_END
#define keeps (holds && runs)
#else
#define keeps holds
#endif
#define keeper_has_time (!keeps || call != NOWHERE || due != 0)
#ifdef DIES
#define has_to_wait (left != 0 || pause != 0 || (hold != 0 && hold != NO_CONTACT && failed == 0))
#define other_has_time (its_call == NOWHERE -> has_to_wait : away)
#else
#define other_has_time (true)
#endif
#ifdef FAILS
#define may_come_back (failed != 0 && call == NOWHERE && its_call == NOWHERE)
#else
#define may_come_back (true)
#endif

inline tick() {
  less(left);
  more(age, LEASE);
#ifdef LOWERS
  old_age = (old -> (old_age >= LEASE -> LEASE : old_age + 1) : 0);
#endif
  more(its_age, SIXTH + 1);
  more(silence, SILENCE + 1);
  less(due);
  less(pause);
  if
  :: hold != NO_CONTACT -> less(hold)
  :: else
  fi;
  if
  :: !away -> more(there_for, STAYS); more(in_store, LATENCY)
  :: else
  fi;
#ifdef DIES
  late = ((is_dead && left == 0 && !away && holder == OWNER) -> late + 1 : 0);
  assert(late <= THIRD + PAUSE + 1);
#endif
  in_store = (call == NOWHERE -> 0 : in_store);
  age = (call == NOWHERE -> 0 : age);
  its_age = (its_call == NOWHERE -> 0 : its_age)
}

active proctype clock() {
end_of_time:
  do
  :: atomic { owner_has_time && keeper_has_time && other_has_time -> tick() }
  :: atomic {
       !away && there_for >= STAYS -> away = true; there_for = 0; in_store = 0; late = 0;
       broken = (call != NOWHERE);
       its_broken = (its_call != NOWHERE)
     }
  :: atomic { away && may_come_back -> away = false }
  od
}

/* ---- The owner ---- */

inline send() { call = SENT; age = 0; in_store = 0; broken = false }
inline over() { call = NOWHERE; age = 0; in_store = 0; broken = false }

/* An extension, or the claim, since it was sent `since` ago. */
inline extend(since) {
#ifdef LOWERS
  left = LEASE - since;
#else
  left = LEASE;
#endif
  may_claim = (may_claim && its_call == SENT) /* what the store has begun for the other node is older than this */
}

inline write() {
  if
  :: holder == NOBODY && !holds -> holder = OWNER; extend(age)
#ifdef EXTENDS_LIVE_LEASES_ONLY
  :: holder == OWNER && left != 0 -> extend(age)
  :: holder == OWNER && left == 0
#else
  :: holder == OWNER -> extend(age)
#endif
  :: holder == OTHER || holder == GONE
  fi
}

inline was_answered() {
#ifdef COUNTS_FROM_THE_ANSWER
  due = THIRD;
#else
  due = (age >= THIRD -> 0 : THIRD - age);
#endif
  over()
}

active proctype owner() {
end_owner:
  do
  :: atomic { call == NOWHERE && !holds && holder == NOBODY -> send() }
  :: atomic { call == NOWHERE && keeps && due == 0 -> send() }
  :: atomic { call == SENT && !away -> call = WRITTEN; write() }
  :: atomic {
       call == WRITTEN && !away ->
       if
       :: holds -> was_answered()
#ifdef NO_LOOK_AT_THE_CLOCK
       :: !holds -> assert(holder == OWNER); holds = true; runs = true; was_answered()
#else
       :: !holds && age < BEGINS_UNTIL -> assert(holder == OWNER); holds = true; runs = true; was_answered()
       :: !holds && age >= BEGINS_UNTIL -> over(); break
#endif
       fi
     }
  :: atomic {
       broken ->
       if
       :: holds ->
          old = (call == SENT);
#ifdef LOWERS
          old_age = (old -> age : 0);
#endif
          over();
          due = RETRY
       :: else -> over(); break
       fi
     }
  :: atomic { old && !away && holder == OWNER -> extend(old_age); old = false; old_age = 0 }
  :: atomic { runs -> runs = false }
  :: atomic { holds && !runs && !away -> holder = GONE; break }
#ifdef DIES
  :: atomic { holds -> is_dead = true; runs = false; holds = false; old = false; due = 0; over(); break }
#endif
  od
}

/* ---- The other node ---- */

inline its_over() { its_call = NOWHERE; what = 0; its_age = 0; may_claim = false; its_broken = false }

inline begin_hold(length) { hold = ((hold == NO_CONTACT || hold < length) -> length : hold) }

#define ends_failure (failed != 0 && (failed == READ || what != READ))

inline note_answer() {
  if
  :: hold == NO_CONTACT -> hold = THIRD
  :: hold != NO_CONTACT && ends_failure ->
     failed = 0;
#ifndef NO_HOLD_AFTER_A_FAILURE
     begin_hold(THIRD)
#endif
  :: hold != NO_CONTACT && !ends_failure && its_age > SIXTH -> begin_hold(THIRD)
  :: else
  fi;
#ifdef HOLDS_FOR_EVER
  begin_hold(THIRD);
#endif
  if
  :: what != READ ->
#if !defined(FORGETS_SILENCE) && !defined(SILENCE_OF_THE_ROW)
     if
     :: silence > SILENCE -> begin_hold(PAUSE)
     :: else
     fi;
#endif
     silence = 0
  :: else
  fi
}

inline may_ask() {
  may_claim = (hold == 0 && failed == 0);
#ifndef FORGETS_SILENCE
  if
  :: may_claim && silence > SILENCE -> may_claim = false; pause = PAUSE
  :: else
  fi
#endif
}

#ifdef NO_UNTIL
#define in_time (true)
#else
#define in_time (its_age <= UNTIL)
#endif

active proctype other() {
end_other:
  do
  :: atomic { its_call == NOWHERE -> its_call = SENT; what = READ }
  :: atomic { its_call == NOWHERE -> its_call = SENT; what = WRITE }
  :: atomic { its_call == NOWHERE && pause == 0 -> its_call = SENT; what = ASK; may_ask() }
  :: atomic {
       its_call == SENT && what == ASK && !away ->
       its_call = BEGUN;
       may_claim = (may_claim && in_time && left == 0 && holder == OWNER)
     }
  :: atomic {
       !away && (its_call == BEGUN || (its_call == SENT && what != ASK)) ->
       if
       :: may_claim && left == 0 && holder == OWNER -> assert(!holds); holder = OTHER; break
       :: else -> note_answer(); its_over()
       fi
     }
  :: atomic { away && its_call == SENT && what == READ -> note_answer(); its_over() }
#ifdef DIES
  :: atomic { its_broken ->
#else
  :: atomic { its_call != NOWHERE ->
#endif
       failed = ((what == READ && failed != WRITE) -> READ : WRITE);
       its_over()
     }
  od
}
