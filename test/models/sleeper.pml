/* The poller's way to sleep, and how it is woken: src/system/sleeper.hpp, src/drive/poller.cpp. Callers add timers to
 * the shards; then the service is stopped.
 *
 * When all callers are through, the poller never sleeps past a timer; and at the end of each history it has ended. A
 * shard's lock is opened by a store that may be on its way for a while. The sleeper's mutex is one that all steps under
 * it are atomic: nobody sees them in between, but for the announcement, which is the last of them.
 *
 * right: CALLERS=2 SHARDS=2
 * right: CALLERS=3 SHARDS=1
 * right: CALLERS=1 TIMERS=3 SHARDS=1
 * wrong: NO_SECOND_LOOK: the poller announces, and sleeps
 * wrong: ANNOUNCES_AFTER_THE_LOOK: it looks twice, and announces after that
 * wrong: LOOKS_WITHOUT_THE_LOCK: the second look does not take the lock of a shard
 * wrong: READS_BEFORE_IT_ADDS: a caller reads the announcement before it adds its timer
 * wrong: FORGETS_THE_WAKEUP: a wake-up that comes before the sleep is forgotten
 * wrong: WAKES_WITHOUT_A_FLAG: who wakes notifies, and sets no flag
 * wrong: ASKS_OUTSIDE_THE_MUTEX: the poller asks for the flag, and goes to sleep in a second step
 * wrong: WIPES_LATE: who wakes takes the announcement back after it has notified
 * wrong: WAKES_BEFORE_THE_END: who stops the service wakes the poller, and then says that it is over
 */

#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef TIMERS
#define TIMERS 1 /* of each caller, one after the other */
#endif
#ifndef SHARDS
#define SHARDS 2
#endif

#define THREADS (CALLERS + 2)
#define POLLER 0
#define STOPPER (CALLERS + 1)

#define WORDS (2 + SHARDS)
#define ANNOUNCED 0
#define OVER 1
#define LOCK(s) (2 + s)

#include "store_buffers.inc"

#define AWAKE 0 /* no event is before it */
#define NEVER 3

byte now = 0;
byte next_of[SHARDS] = NEVER; /* guarded by the lock of the shard */
bool woken = false;           /* guarded by the sleeper's mutex */
bool asleep = false;
byte until = NEVER;
byte through = 0;

/* In an atomic step, at its beginning. */
#define takes_lock(s) nothing_stored(me) && word[LOCK(s)] == 0

inline look(result) {
  atomic { result = NEVER; s = 0 }
  do
  :: s < SHARDS ->
     atomic {
       takes_lock(s) -> word[LOCK(s)] = 1;
       if
       :: next_of[s] < result -> result = next_of[s]
       :: else
       fi
     }
     store(LOCK(s), 0);
     s++
  :: else -> break
  od
}

inline look_again(result) {
#ifdef LOOKS_WITHOUT_THE_LOCK
  atomic { result = NEVER; s = 0 }
  do
  :: s < SHARDS ->
     atomic {
       if
       :: next_of[s] < result -> result = next_of[s]
       :: else
       fi;
       s++
     }
  :: else -> break
  od
#else
  look(result)
#endif
}

inline run_due() {
  s = 0;
  do
  :: s < SHARDS ->
     atomic {
       takes_lock(s) -> word[LOCK(s)] = 1;
       if
       :: next_of[s] <= now -> next_of[s] = NEVER
       :: else
       fi
     }
     store(LOCK(s), 0);
     s++
  :: else -> break
  od
}

inline sleep_until_next() {
  atomic {
    read_modify_write;
    until = next;
#ifdef FORGETS_THE_WAKEUP
    woken = false
#endif
  }
  do
  ::
#ifdef ASKS_OUTSIDE_THE_MUTEX
     if
     :: woken -> break
     :: else -> asleep = true
     fi;
#else
     atomic {
       if
       :: woken -> break
       :: else -> asleep = true
       fi
     }
#endif
     if
     :: !asleep
     :: atomic { until != NEVER && asleep -> asleep = false; now = until; break }
     fi
  od;
  atomic { woken = false; word[ANNOUNCED] = AWAKE }
}

inline wake() {
#ifdef WIPES_LATE
  atomic { read_modify_write; woken = true }
  asleep = false;
  atomic { read_modify_write; word[ANNOUNCED] = AWAKE }
#else
  atomic {
    read_modify_write;
#ifndef WAKES_WITHOUT_A_FLAG
    woken = true;
#endif
    word[ANNOUNCED] = AWAKE
  }
  asleep = false
#endif
}

proctype poller(byte me) {
  byte next = 0;
  byte earlier = 0;
  byte s = 0;
  do
  :: word[OVER] -> break /* it stores nothing there itself */
  :: else ->
     run_due();
     look(next);
     if
     :: next <= now || word[OVER]
     :: else ->
#ifdef ANNOUNCES_AFTER_THE_LOOK
        look(earlier);
        store(ANNOUNCED, next);
#else
        store(ANNOUNCED, next);
#ifdef NO_SECOND_LOOK
        earlier = next;
#else
        look_again(earlier);
#endif
#endif
        if
        :: earlier < next -> atomic { read_modify_write; woken = false; word[ANNOUNCED] = AWAKE }
        :: else -> sleep_until_next()
        fi
     fi
  od;
  asleep = false
}

proctype caller(byte me) {
  byte s = 0;
  byte event = 0;
  byte added = 0;
  bool wakes = false;
  do
  :: added < TIMERS ->
     if
     :: s = 0
     :: s = SHARDS - 1
     fi;
     if
     :: event = 1
     :: event = 2
     fi;
#ifdef READS_BEFORE_IT_ADDS
     wakes = (event < seen(ANNOUNCED));
#endif
     atomic {
       takes_lock(s) -> word[LOCK(s)] = 1;
       if
       :: event < next_of[s] -> next_of[s] = event
       :: else -> event = next_of[s]
       fi
     }
     store(LOCK(s), 0);
#ifndef READS_BEFORE_IT_ADDS
     wakes = (event < seen(ANNOUNCED));
#endif
     if
     :: wakes -> wake()
     :: else
     fi;
     atomic { wakes = false; added++ }
  :: else -> break
  od;
  through++
}

proctype stopper(byte me) {
  through == CALLERS;
#ifdef WAKES_BEFORE_THE_END
  wake();
  store(OVER, 1)
#else
  store(OVER, 1);
  wake()
#endif
}

/* Looks once, at any time. */
proctype observer() {
  byte s = 0;
end_has_not_looked:
  atomic {
    through == CALLERS && asleep && !woken ->
    for (s : 0 .. SHARDS - 1) {
      assert(next_of[s] >= until)
    }
  }
}

init {
  byte t;
  atomic {
    run poller(POLLER);
    for (t : 1 .. CALLERS) {
      run caller(t)
    }
    run stopper(STOPPER);
    run observer();
    for (t : 0 .. THREADS - 1) {
      run memory(t)
    }
  }
}
