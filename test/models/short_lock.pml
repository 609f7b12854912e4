/* The lock of a shard: src/system/short_lock.hpp. Threads lock and unlock it; its rounds of trying before it sleeps are
 * left out, for they only make a sleep rarer.
 *
 * At the end of each history every thread is through, and never were two inside.
 *
 * right: THREADS=2 ROUNDS=3
 * right: THREADS=3 ROUNDS=2
 * right: THREADS=4 ROUNDS=1
 * right: THREADS=3 ROUNDS=2 REFUSED=1
 * wrong: NO_BARRIER: who goes to sleep does not make the others pass a barrier
 * wrong: REFUSED=3 SLEEPS_ALL_THE_SAME: who is refused the barrier relies on being woken
 * wrong: LOOKS_BEFORE_IT_OPENS: an unlock asks for sleepers first, as a compiler may have it
 * wrong: OPENS_AND_WAKES_NOBODY: an unlock asks for no sleepers
 * wrong: WAITS_FOR_THE_STATE: a count of sleepers, who wait for the state to change, instead of a sequence
 * wrong: NOTIFIES_BEFORE_IT_CLEARS: an unlock wakes somebody, and takes the mark away after that
 * wrong: WOKEN_CLEARS: not the unlock takes the mark away, but who has slept, when it is inside
 * wrong: MARKS_ONCE: who was woken does not mark the lock again
 * wrong: NO_LOOK: who goes to sleep does not try once more
 * wrong: LATE_EPOCH: who goes to sleep reads the epoch after its mark
 * wrong: STORES_THE_EPOCH: the epoch is stored, so that notify asks for sleepers before it is in memory
 * wrong: ENTERS_BY_STORE: a lock is taken by a load and a store
 */

#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef REFUSED
#define REFUSED 0 /* threads that are refused the barrier; a filter of system calls belongs to a thread */
#endif

#define WORDS 4
#define STATE 0
#define ASLEEP 1
#define EPOCH 2
#define WAITERS 3 /* whom the C++ library knows to wait: its notify asks the system only if there is one */

#define OPEN 0
#define TAKEN 1

#include "store_buffers.inc"

bool in_system[4]; /* asleep */
byte inside = 0;

inline try_acquire() {
#ifdef ENTERS_BY_STORE
  atomic { got = (seen(STATE) == OPEN) }
  if
  :: got -> store(STATE, TAKEN)
  :: else
  fi
#else
  atomic {
    read_modify_write;
    got = (word[STATE] == OPEN);
    if
    :: got -> word[STATE] = TAKEN
    :: else
    fi
  }
#endif
}

/* Sleeps as long as the word is as it was. The system compares it once more, when it puts the thread to sleep; who was
 * woken compares it again. */
inline wait_while(w, value) {
  atomic { read_modify_write; word[WAITERS]++ }
  do
  :: atomic {
       if
       :: word[w] == value -> in_system[me] = true
       :: else -> break
       fi
     }
     !in_system[me]
  od;
  atomic { read_modify_write; word[WAITERS]-- }
}

inline notify_one() {
  if
  :: seen(WAITERS) == 0
  :: else ->
     atomic {
       if
       :: in_system[0] -> in_system[0] = false
       :: in_system[1] -> in_system[1] = false
       :: in_system[2] -> in_system[2] = false
       :: in_system[3] -> in_system[3] = false
       :: else
       fi
     }
  fi
}

#ifdef WAITS_FOR_THE_STATE

inline lock_slowly() {
  atomic { read_modify_write; word[ASLEEP]++ }
  do
  :: barrier_of_all(i);
     try_acquire();
     if
     :: got -> break
     :: else -> wait_while(STATE, TAKEN)
     fi
  od;
  atomic { read_modify_write; word[ASLEEP]-- }
}

inline unlock() {
  store(STATE, OPEN);
  if
  :: seen(ASLEEP) != 0 -> notify_one()
  :: else
  fi
}

#else

inline lock_slowly() {
#ifdef MARKS_ONCE
  store(ASLEEP, 1);
#endif
  do
  ::
#ifndef LATE_EPOCH
     epoch = seen(EPOCH);
#endif
#ifndef MARKS_ONCE
     store(ASLEEP, 1);
#endif
#ifndef NO_BARRIER
     if
     :: me >= REFUSED -> barrier_of_all(i)
     :: else
     fi;
#endif
#ifndef NO_LOOK
     try_acquire();
     if
     :: got -> break
     :: else
     fi;
#endif
#ifdef LATE_EPOCH
     epoch = seen(EPOCH);
#endif
#ifdef SLEEPS_ALL_THE_SAME
     wait_while(EPOCH, epoch);
#else
     if
     :: me >= REFUSED -> wait_while(EPOCH, epoch)
     :: else -> seen(STATE) == OPEN /* sleeps for a while, until it finds this */
     fi;
#endif
     epoch = 0
  od;
#ifdef WOKEN_CLEARS
  store(ASLEEP, 0);
#endif
  epoch = 0
}

inline wake_one() {
#ifdef NOTIFIES_BEFORE_IT_CLEARS
  atomic { read_modify_write; word[EPOCH]++ }
  notify_one();
  atomic { read_modify_write; word[ASLEEP] = 0 }
#else
#ifdef WOKEN_CLEARS
  got = true;
#else
  atomic { read_modify_write; got = (word[ASLEEP] != 0); word[ASLEEP] = 0 }
#endif
  if
  :: got ->
#ifdef STORES_THE_EPOCH
     epoch = seen(EPOCH) + 1;
     store(EPOCH, epoch);
     epoch = 0;
#else
     atomic { read_modify_write; word[EPOCH]++ }
#endif
     notify_one()
  :: else
  fi
#endif
}

inline unlock() {
#ifdef LOOKS_BEFORE_IT_OPENS
  got = (seen(ASLEEP) != 0);
  store(STATE, OPEN);
#else
  store(STATE, OPEN);
  got = (seen(ASLEEP) != 0);
#endif
#ifndef OPENS_AND_WAKES_NOBODY
  if
  :: got -> wake_one()
  :: else
  fi;
#endif
  got = false
}

#endif

proctype thread(byte me) {
  byte round = 0;
  byte epoch = 0;
  byte i = 0;
  bool got = false;
  do
  :: round < ROUNDS ->
     try_acquire();
     if
     :: got
     :: else -> lock_slowly()
     fi;
     atomic { got = false; inside++; assert(inside == 1) }
     atomic { inside--; round++ }
     unlock()
  :: else -> break
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. THREADS - 1) {
      run thread(i);
      run memory(i)
    }
  }
}
