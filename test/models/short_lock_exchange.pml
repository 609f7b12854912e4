/* The lock of an Asio timer's states (detail/asio/states.hpp), which a shard had before, too. An exchange opens it, and
 * tells whether somebody may be asleep. All it does is read-modify-write, so that it needs no store buffers.
 *
 * At the end of each history every thread is through, and never were two inside.
 *
 * right: THREADS=2 ROUNDS=4
 * right: THREADS=3 ROUNDS=3
 * right: THREADS=4 ROUNDS=2
 * wrong: OPENS_AND_WAKES_NOBODY: an unlock asks for no sleepers
 * wrong: WOKEN_FORGETS: who has slept takes the lock without a mark, and does not wake the next one
 * wrong: LOOKS_BEFORE_IT_OPENS: an unlock asks for sleepers first, and opens after that
 * wrong: SLEEPS_WITHOUT_A_MARK: who finds the lock taken sleeps, and marks nothing
 * wrong: ENTERS_BY_STORE: a lock is taken by a load and a store
 */

#ifndef THREADS
#define THREADS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define OPEN 0
#define TAKEN 1
#define CONTENDED 2

byte state = OPEN;
byte waiters = 0; /* whom the C++ library knows to wait */
bool in_system[4]; /* asleep */
byte inside = 0;

inline try_acquire() {
#ifdef ENTERS_BY_STORE
  got = (state == OPEN);
  if
  :: got -> state = TAKEN
  :: else
  fi
#else
  atomic {
    got = (state == OPEN);
    if
    :: got -> state = TAKEN
    :: else
    fi
  }
#endif
}

/* The system compares once more, when it puts the thread to sleep; who was woken compares again. */
inline wait_while(value) {
  waiters++;
  do
  :: atomic {
       if
       :: state == value -> in_system[me] = true
       :: else -> break
       fi
     }
     !in_system[me]
  od;
  waiters--
}

inline notify_one() {
  if
  :: waiters == 0
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

inline lock_slowly() {
  do
  ::
#if defined(WOKEN_FORGETS) || defined(SLEEPS_WITHOUT_A_MARK)
     try_acquire();
#ifndef SLEEPS_WITHOUT_A_MARK
     atomic {
       if
       :: !got && state == TAKEN -> state = CONTENDED
       :: else
       fi
     }
#endif
#else
     atomic { got = (state == OPEN); state = CONTENDED }
#endif
     if
     :: got -> break
     :: else
     fi;
#ifdef SLEEPS_WITHOUT_A_MARK
     wait_while(TAKEN)
#else
     wait_while(CONTENDED)
#endif
  od
}

inline unlock() {
#ifdef LOOKS_BEFORE_IT_OPENS
  got = (state == CONTENDED);
  state = OPEN;
#else
  atomic { got = (state == CONTENDED); state = OPEN }
#endif
#ifndef OPENS_AND_WAKES_NOBODY
  if
  :: got -> notify_one()
  :: else
  fi;
#endif
  got = false
}

proctype thread(byte me) {
  byte round = 0;
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
      run thread(i)
    }
  }
}
