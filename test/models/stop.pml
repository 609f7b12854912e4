/* The end of a service: stopping.cpp, driver.hpp, `waiting_` and `changed_` in guarded_core.hpp. Two threads stop it,
 * one of them perhaps after a drain; another one cancels; a callback may stop it, too. Its timers are due from the
 * beginning. They run on the driver, or on a thread of a pool. The driver is the poller, or a thread that takes the
 * seat.
 *
 * When a `stop` returns that was not called by a callback, nothing runs, the poller has ended, and nobody is left in
 * the seat who took it before. At the end of each history all threads are through, but for that of the pool, which
 * may wait for tasks.
 *
 * right: POLLED=1 POOL=0
 * right: POLLED=1 POOL=1
 * right: POLLED=0 POOL=0
 * right: POLLED=1 POOL=1 DRAIN
 * right: POLLED=0 POOL=1 DRAIN
 * right: POLLED=0 POOL=0 DRAIN
 * right: POLLED=1 POOL=1 DRAIN ALONE
 * right: POLLED=0 POOL=1 DRAIN ALONE
 * wrong: WAKES_BEFORE_THE_END: `stop` wakes the driver, and then says that it is over
 * wrong: ENDS_WITHOUT_WAKING: `stop` says that it is over, and wakes nobody
 * wrong: WAITS_INSIDE: a callback that stops the service waits for its own end
 * wrong: POOL=1 WAITS_FOR_NO_RUN: `stop` does not wait for the callbacks of the pool
 * wrong: POOL=1 ENDS_BEFORE_IT_CLOSES: `stop` ends the driver and waits, and closes the shards after that
 * wrong: DOES_NOT_JOIN: `stop` does not wait for the poller
 * wrong: POOL=1 RUNS_END_SILENTLY: the end of a run notifies nobody
 * wrong: POOL=1 ADDS_ITSELF_LATE: who waits for a run is counted after it has looked, without the lock
 * wrong: POOL=1 POLLED=0 DRAIN ALONE LEAVES_THE_DRAIN_ASLEEP: what leaves nothing pending does not wake who drains
 * wrong: POOL=1 DRAIN ALONE CANCELS_SILENTLY: a cancel that leaves nothing pending notifies nobody
 * wrong: POLLED=0 FREES_WITHOUT_THE_MUTEX: the seat is left by a store, without the mutex of those who wait for it
 * wrong: POLLED=0 DOES_NOT_WAIT_FOR_THE_SEAT: `stop` does not wait for the thread that drives
 */

#ifndef POLLED
#define POLLED 1
#endif
#ifndef POOL
#define POOL 0
#endif
#define TIMERS 2

#define THREADS 5
#define DRIVER 0
#define WORKER 1
#define FIRST 2  /* who stops */
#define SECOND 3 /* who stops, or drains and stops */
#define CANCELLER 4

#define WORDS 3
#define LOCK 0
#define OVER 1
#define TAKEN 2 /* the seat */

#include "store_buffers.inc"

#define OPEN 0
#define DRAINING 1
#define CLOSED 2

#define bit_of(thread) (1 << thread)

/* Guarded by the shard's lock. */
byte phase = OPEN;
byte pending = TIMERS;
byte due = TIMERS; /* those of them that nobody has handed to the pool */
byte running = 0;
byte waiting = 0;
byte changed = 0; /* who is asleep for `changed_`: a bit for each thread */

byte tasks = 0;        /* on their way to the pool */
bool woken = false;    /* guarded by the sleeper's mutex */
bool asleep = false;
byte left = 0;         /* who is asleep for `freed_` */
bool joining = false;  /* the poller's mutex */
bool has_ended = false;
#ifdef ALONE           /* nobody else stops the service */
bool called = true;
#else
bool called = false;   /* a callback has stopped the service; one of them does */
#endif
bool drives = false;   /* somebody who has taken the seat before the shards were closed */

/* ---- The shard ---- */

/* In an atomic step, at its beginning. */
#define take_lock nothing_stored(me) && word[LOCK] == 0 -> word[LOCK] = 1

#define is_drained (phase == CLOSED || (phase == DRAINING && pending == 0))

/* Under the lock. */
inline notify() {
  if
  :: waiting != 0 -> changed = 0
  :: else
  fi
}

/* Under the lock. The sleeper's mutex is taken within: a step that nobody sees in between. */
inline notify_if_drained() {
  if
  :: is_drained ->
     notify();
#ifndef LEAVES_THE_DRAIN_ASLEEP
     woken = true;
     asleep = false
#endif
  :: else
  fi
}

inline wait_until(done) {
#ifdef ADDS_ITSELF_LATE
  do
  :: atomic {
       take_lock;
       if
       :: done -> break
       :: else
       fi
     }
     store(LOCK, 0);
     atomic { waiting++; changed = changed | bit_of(me) }
     atomic { !(changed & bit_of(me)) -> waiting-- }
  od;
#else
  atomic { take_lock; waiting++ }
  do
  :: atomic {
       if
       :: done -> waiting--; break
       :: else -> changed = changed | bit_of(me)
       fi
     }
     store(LOCK, 0);
     !(changed & bit_of(me));
     atomic { take_lock }
  od;
#endif
  store(LOCK, 0)
}

inline enter(one) {
  atomic {
    take_lock;
    if
    :: phase < one -> phase = one
    :: else
    fi;
    notify_if_drained()
  }
  store(LOCK, 0)
}

/* ---- Stop ---- */

inline wake() {
  atomic { read_modify_write; woken = true }
  asleep = false
}

inline close_and_take() {
  enter(CLOSED);
  atomic { take_lock; pending = 0; due = 0 }
  store(LOCK, 0)
}

inline end_driver() {
#ifdef WAKES_BEFORE_THE_END
  wake();
  store(OVER, 1)
#else
  store(OVER, 1);
#ifndef ENDS_WITHOUT_WAKING
  wake()
#endif
#endif
}

inline wait_for_the_end() {
#ifndef DOES_NOT_WAIT_FOR_THE_SEAT
  do
  :: atomic {
       read_modify_write;
       if
       :: word[TAKEN] == 0 -> break
       :: else -> left = left | bit_of(me)
       fi
     }
     !(left & bit_of(me))
  od;
#endif
#if POLLED && !defined(DOES_NOT_JOIN)
  atomic { !joining -> joining = true }
  has_ended;
  joining = false;
#endif
#ifndef WAITS_FOR_NO_RUN
  wait_until(running == 0)
#endif
}

inline stop_service() {
#ifdef ENDS_BEFORE_IT_CLOSES
  end_driver();
  wait_for_the_end();
  close_and_take();
#else
  close_and_take();
  end_driver();
  wait_for_the_end();
#endif
  assert(running == 0 && pending == 0 && (has_ended || !POLLED) && !drives)
}

/* ---- Runs ---- */

inline callback() {
  if
  :: true
  :: atomic { !called -> called = true }
     close_and_take();
     end_driver();
#ifdef WAITS_INSIDE
     wait_for_the_end();
#endif
  fi
}

inline finish() {
  atomic {
    take_lock;
    running--;
#ifndef RUNS_END_SILENTLY
    notify()
#endif
  }
  store(LOCK, 0)
}

/* One timer that is due, if there is one. */
inline run_due() {
  atomic {
    take_lock;
    if
    :: due != 0 && POOL -> due--; tasks++; got = false
    :: due != 0 && !POOL -> due--; pending--; running++; got = true; notify_if_drained()
    :: else -> got = false
    fi
  }
  store(LOCK, 0);
#if !POOL
  if
  :: got -> callback(); finish()
  :: else
  fi;
#endif
  got = false
}

inline sleep_for_a_wakeup() {
  do
  :: atomic {
       if
       :: woken -> woken = false; break
       :: else -> asleep = true
       fi
     }
     !asleep
  od
}

inline leave_the_seat() {
#ifdef FREES_WITHOUT_THE_MUTEX
  drives = false;
  store(TAKEN, 0);
  left = 0
#else
  atomic { read_modify_write; word[TAKEN] = 0; left = 0; drives = false }
#endif
}

proctype driver(byte me) {
  bool got = false;
#if POLLED
  do
  :: seen(OVER) -> break
  :: else ->
     run_due();
     if
     :: due != 0 || seen(OVER) /* next_event(), under the lock */
     :: else -> atomic { read_modify_write } sleep_for_a_wakeup()
     fi
  od;
  has_ended = true
#else
  byte round = 0;
  do
  :: round < TIMERS ->
     atomic {
       read_modify_write;
       got = (word[TAKEN] == 0);
       word[TAKEN] = 1;
       drives = drives || (got && phase != CLOSED)
     }
     if
     :: got ->
        run_due();
        leave_the_seat()
     :: else -> got = false /* it throws */
     fi;
     round++
  :: else -> break
  od
#endif
}

proctype worker(byte me) {
  bool got = false;
end_without_tasks:
  do
  :: atomic { tasks != 0 -> tasks-- }
     atomic {
       take_lock;
       if
       :: pending > due -> pending--; running++; got = true; notify_if_drained()
       :: else -> got = false
       fi
     }
     store(LOCK, 0);
     if
     :: got -> callback(); finish()
     :: else
     fi;
     got = false
  od
}

/* ---- Callers ---- */

inline drain() {
  enter(DRAINING);
#if !POLLED
  do
  :: atomic {
       read_modify_write;
       if
       :: word[TAKEN] == 0 -> word[TAKEN] = 1; break
       :: else -> left = left | bit_of(me)
       fi
     }
     !(left & bit_of(me))
  od;
  do
  :: seen(OVER) || pending == 0 -> break
  :: else ->
     run_due();
     if
     :: due != 0 || seen(OVER)
     :: else -> atomic { read_modify_write } sleep_for_a_wakeup()
     fi
  od;
  leave_the_seat();
#endif
  wait_until(is_drained && running == 0)
}

proctype stopper(byte me; bool drains) {
  bool got = false;
  if
  :: drains -> drain()
  :: else
  fi;
  stop_service()
}

proctype canceller(byte me) {
  bool is_running = false;
  atomic {
    take_lock;
    if
    :: pending != 0 ->
       pending--;
       if
       :: due != 0 -> due--
       :: else
       fi;
#ifndef CANCELS_SILENTLY
       notify_if_drained()
#endif
    :: else -> is_running = (running != 0)
    fi
  }
  store(LOCK, 0);
  if
  :: is_running -> wait_until(running == 0)
  :: else
  fi
}

init {
  byte t;
  atomic {
    run driver(DRIVER);
#if POOL
    run worker(WORKER);
#endif
#ifdef DRAIN
    run stopper(SECOND, true);
#else
    run stopper(SECOND, false);
#endif
#ifndef ALONE
    run stopper(FIRST, false);
#endif
    run canceller(CANCELLER);
    for (t : 0 .. THREADS - 1) {
      run memory(t)
    }
  }
}
