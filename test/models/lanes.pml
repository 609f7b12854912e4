/* A drain in callbacks of a service with two pollers: `drive_until_idle` in stopping.cpp, `run_batch` in runner.hpp,
 * `waiting_` and `changed_` in guarded_core.hpp. Each lane has a shard, whose timers are due from the beginning and
 * are its offers. The first callback of each lane may drain the service: it runs the rest of its own lane,
 * and waits until the other one has nothing pending. With LAST_WAITS only the first lane drains, and the last callback
 * of the other does not end before that drain is over.
 *
 * At the end of each history both drivers are through. When a drain is over, nothing is pending.
 *
 * right: TIMERS=1
 * right: TIMERS=2
 * right: TIMERS=3
 * right: TIMERS=1 LAST_WAITS
 * right: TIMERS=2 LAST_WAITS
 * right: TIMERS=3 LAST_WAITS
 * wrong: TIMERS=1 LAST_WAITS ASKS_WHEN_SOMETHING_ENDED: who begins a timer asks who waits only if one has ended
 * wrong: TIMERS=2 LAST_WAITS ASKS_BEFORE_IT_BEGINS: it asks, and then begins
 * wrong: TIMERS=1 LAST_WAITS ADDS_ITSELF_LATE: who waits is counted after it has looked, without the lock
 * wrong: TIMERS=2 LAST_WAITS TELLS_NOBODY: the driver finds a waiting thread, and only counts what it has begun
 * wrong: TIMERS=2 LAST_WAITS LOOKS_AT_COUNTS_ONLY: who waits does not look into the window
 * wrong: TIMERS=2 WAITS_BEFORE_IT_DRIVES: who drains waits for the other lane before it goes on with its own
 * wrong: TIMERS=1 WAITS_FOR_RUNS: who drains waits for the end of the callbacks of the other lane, too
 * wrong: TIMERS=2 DOES_NOT_WAIT: a drain is over when its own lane is empty
 */

#ifndef TIMERS
#define TIMERS 2
#endif

#define THREADS 2
#define WORDS 2 /* the lock of each lane's shard */

#include "store_buffers.inc"

/* Guarded by the shard's lock, one of each for a lane. */
byte pending[2] = TIMERS;
byte running[2] = 0;
byte waiting[2] = 0; /* read by the driver without the lock */
byte changed[2] = 0; /* who is asleep for `changed_`: a bit for each thread */

/* The offers: what has begun and ended, and is not counted yet. */
byte begun[2] = 0;
byte ended[2] = 0;

bool drained = false; /* the drain of the first lane */

#define take_lock(l) nothing_stored(me) && word[l] == 0 -> word[l] = 1

#define bit_of(thread) (1 << thread)

/* Under the lock of `l`. */
inline settle(l) {
  pending[l] = pending[l] - begun[l];
  running[l] = running[l] + begun[l] - ended[l];
  begun[l] = 0;
  ended[l] = 0
}

inline notify(l) {
  if
  :: waiting[l] != 0 -> changed[l] = 0
  :: else
  fi
}

#ifdef WAITS_FOR_RUNS
#define is_idle(l) (pending[l] == 0 && running[l] == 0)
#else
#define is_idle(l) (pending[l] == 0)
#endif

#ifdef LOOKS_AT_COUNTS_ONLY
#define look(l) skip
#else
#define look(l) settle(l)
#endif

inline wait_for_all(l) {
#ifdef ADDS_ITSELF_LATE
  do
  :: atomic {
       take_lock(l);
       look(l);
       if
       :: is_idle(l) -> break
       :: else
       fi
     }
     store(l, 0);
     atomic { waiting[l]++; changed[l] = changed[l] | bit_of(me) }
     atomic { !(changed[l] & bit_of(me)) -> waiting[l]-- }
  od;
#else
  /* Not one step: the driver does not take the lock to begin. */
  atomic { take_lock(l); waiting[l]++ }
  do
  :: atomic {
       look(l);
       if
       :: is_idle(l) -> waiting[l]--; break
       :: else -> changed[l] = changed[l] | bit_of(me)
       fi
     }
     store(l, 0);
     !(changed[l] & bit_of(me));
     atomic { take_lock(l) }
  od;
#endif
  store(l, 0)
}

inline tell() {
  atomic {
    take_lock(me);
    settle(me);
#ifndef TELLS_NOBODY
    notify(me)
#endif
  }
  store(me, 0)
}

/* The driver ends the run before, if it has not said so yet, and begins the next. */
inline begin() {
#ifdef ASKS_BEFORE_IT_BEGINS
  asked = (waiting[me] != 0);
#endif
  atomic {
    read_modify_write;
    begun[me]++;
    left--;
    ended[me] = ended[me] + unsaid
  }
#ifndef ASKS_BEFORE_IT_BEGINS
  asked = (waiting[me] != 0);
#endif
#ifdef ASKS_WHEN_SOMETHING_ENDED
  asked = asked && unsaid != 0;
#endif
  unsaid = 0;
  if
  :: asked -> tell()
  :: else
  fi
}

inline callback() {
#ifdef LAST_WAITS
  if
  :: me == 1 && left == 0 -> drained
  :: else
  fi
#endif
  unsaid = 1
}

inline run_the_rest() {
  do
  :: left != 0 -> begin(); callback()
  :: else -> break
  od;
  if
  :: unsaid != 0 ->
     atomic {
       take_lock(me);
       ended[me] = ended[me] + unsaid;
       settle(me);
       notify(me)
     }
     store(me, 0);
     unsaid = 0
  :: else
  fi
}

inline drain() {
#ifdef WAITS_BEFORE_IT_DRIVES
  wait_for_all(1 - me);
  run_the_rest();
#else
  run_the_rest();
#ifndef DOES_NOT_WAIT
  wait_for_all(1 - me);
#endif
#endif
  assert(pending[0] - begun[0] == 0 && pending[1] - begun[1] == 0);
  if
  :: me == 0 -> drained = true
  :: else
  fi
}

proctype driver(byte me) {
  byte left = TIMERS;
  byte unsaid = 0; /* a run that is over, and has not been said to be */
  bool asked = false;
  begin();
  if
#ifdef LAST_WAITS
  :: me == 0 -> drain()
  :: me == 1 && left == 0 -> drained
  :: me == 1 && left != 0
#else
  :: drain()
  :: true
#endif
  fi;
  unsaid = 1;
  run_the_rest()
}

init {
  byte t;
  atomic {
    for (t : 0 .. THREADS - 1) {
      run driver(t);
      run memory(t)
    }
  }
}
