/* A loop of the user's that drives a service, and how it is told of an earlier timer: loop_timer.cpp, `wake_driver`
 * and `wait_for_tellers` in context.hpp, `answer_for` and `nudge` in sleeper.hpp. The loop's own way to sleep is an
 * eventfd. At any time it stops the service, drains it in the sleeper, and destroys it, while handles still move
 * their timers.
 *
 * When all callers are through, neither loop nor drain sleeps past a timer; nobody calls `on_earlier` when it is gone;
 * and at the end of each history the service is gone.
 *
 * right: CALLERS=2 TIMERS=1
 * right: CALLERS=1 TIMERS=3
 * wrong: LOOKS_ONCE: `next_event` announces, and does not look again
 * wrong: ANSWERS_LATE: a caller tells the loop, and takes the announcement back after that
 * wrong: WIPES: a caller takes an announcement back that is not past its timer, and tells nobody
 * wrong: NO_NUDGE: a loop that drains is not woken
 * wrong: ENDS_ANNOUNCED: what the loop has announced still stands when the service is gone
 * wrong: WAITS_FOR_NOBODY: the end does not wait for those that tell the loop
 * wrong: COUNTS_LATE: who tells the loop is counted after it has taken the announcement back
 * wrong: LEAVES_SILENTLY: the last who tells the loop does not notify the end, which waits
 */

#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef TIMERS
#define TIMERS 1 /* of each caller, one after the other */
#endif

#define THREADS (CALLERS + 1)
#define LOOP 0

#define WORDS 3
#define ANNOUNCED 0
#define LOCK 1
#define TELLERS 2

#include "store_buffers.inc"

#define AWAKE 0 /* no event is before it */
#define NEVER 3

byte now = 0;
byte next_event = NEVER;  /* guarded by the shard's lock; NEVER: nothing is pending */
bool draining = false;    /* guarded by it */
bool readable = false;    /* the eventfd */
bool woken = false;       /* guarded by the sleeper's mutex */
bool in_loop = false;     /* asleep, in the loop */
bool in_drain = false;    /* asleep, in the sleeper */
bool in_retire = false;   /* asleep, until nobody tells */
bool is_gone = false;     /* `on_earlier` */
byte until = NEVER;
byte through = 0;

/* Under the shard's lock. */
inline locked_look(result) {
  atomic { nothing_stored(me) && word[LOCK] == 0 -> word[LOCK] = 1; result = next_event }
  store(LOCK, 0)
}

inline run_due() {
  atomic {
    nothing_stored(me) && word[LOCK] == 0 -> word[LOCK] = 1;
    if
    :: next_event <= now -> next_event = NEVER
    :: else
    fi
  }
  store(LOCK, 0)
}

/* ---- The loop ---- */

inline announce_next_event() {
  locked_look(next);
  do
  :: store(ANNOUNCED, next);
#ifdef LOOKS_ONCE
     break
#else
     locked_look(earlier);
     if
     :: earlier >= next -> break
     :: else -> next = earlier
     fi
#endif
  od
}

inline poll_the_loop() {
  atomic { until = next; in_loop = true }
  if
  :: atomic { readable -> readable = false; in_loop = false }
  :: atomic { until != NEVER -> now = until; in_loop = false }
  :: atomic { in_loop = false; over = true } /* something else that the loop does: it stops the service */
  fi
}

inline drain() {
  atomic { nothing_stored(me) && word[LOCK] == 0 -> word[LOCK] = 1; draining = true }
  store(LOCK, 0);
  do
  :: run_due();
     locked_look(next);
     if
     :: next == NEVER -> break
     :: next != NEVER && next <= now
     :: else ->
        store(ANNOUNCED, next);
        locked_look(earlier);
        if
        :: earlier < next -> atomic { read_modify_write; woken = false; word[ANNOUNCED] = AWAKE }
        :: else ->
           atomic { read_modify_write; until = next }
           do
           :: atomic {
                if
                :: woken -> break
                :: else -> in_drain = true
                fi
              }
              if
              :: !in_drain
              :: atomic { in_drain -> in_drain = false; now = until; break }
              fi
           od;
           atomic { woken = false; word[ANNOUNCED] = AWAKE }
        fi
     fi
  od
}

inline retire() {
#ifndef ENDS_ANNOUNCED
  atomic { read_modify_write; woken = true; word[ANNOUNCED] = AWAKE }
#endif
#ifndef WAITS_FOR_NOBODY
  atomic { read_modify_write; inside = word[TELLERS] }
  do
  :: inside == 0 -> break
  :: else ->
     do
     :: atomic {
          if
          :: word[TELLERS] == inside -> in_retire = true
          :: else -> break
          fi
        }
        !in_retire
     od;
     inside = word[TELLERS]
  od;
#endif
  is_gone = true
}

proctype loop(byte me) {
  byte next = 0;
  byte earlier = 0;
  byte inside = 0;
  bool over = false;
  do
  :: over -> break
  :: else ->
     run_due();
     announce_next_event();
     if
     :: next > now -> poll_the_loop()
     :: else
     fi
  od;
  drain();
  retire()
}

/* ---- A caller, with a timer of its own ---- */

/* Takes the announcement back if it is past the event. */
inline answer_for() {
#ifdef WIPES
  atomic { read_modify_write; answers = (event < word[ANNOUNCED]); word[ANNOUNCED] = AWAKE }
#else
  was = seen(ANNOUNCED);
  do
  :: event < was ->
     atomic {
       read_modify_write;
       if
       :: word[ANNOUNCED] == was -> word[ANNOUNCED] = AWAKE; answers = true; break
       :: else -> was = word[ANNOUNCED]
       fi
     }
  :: else -> break
  od;
  was = 0
#endif
}

inline tell() {
#ifndef NO_NUDGE
  atomic { read_modify_write; woken = true }
  in_drain = false;
#endif
  atomic { assert(!is_gone); readable = true }
}

inline wake_driver() {
#ifndef COUNTS_LATE
  atomic { read_modify_write; word[TELLERS]++ }
#endif
#ifdef ANSWERS_LATE
  if
  :: event < seen(ANNOUNCED) -> tell(); answer_for()
  :: else
  fi;
#else
  answer_for();
#ifdef COUNTS_LATE
  atomic { read_modify_write; word[TELLERS]++ }
#endif
  if
  :: answers -> tell()
  :: else
  fi;
#endif
  atomic { read_modify_write; word[TELLERS]--; answers = (word[TELLERS] == 0) }
#ifndef LEAVES_SILENTLY
  if
  :: answers -> in_retire = false
  :: else
  fi;
#endif
  answers = false
}

proctype caller(byte me) {
  byte event = 0;
  byte was = 0;
  byte added = 0;
  bool answers = false;
  do
  :: added < TIMERS ->
     if
     :: event = 1
     :: event = 2
     fi;
     atomic {
       nothing_stored(me) && word[LOCK] == 0 -> word[LOCK] = 1;
       if
       :: draining && next_event == NEVER -> event = NEVER /* refused, and no timer is there to be moved */
       :: else ->
          if
          :: event < next_event -> next_event = event
          :: else -> event = next_event
          fi
       fi
     }
     store(LOCK, 0);
     if
     :: event < seen(ANNOUNCED) -> wake_driver()
     :: else
     fi;
     added++
  :: else -> break
  od;
  through++
}

/* Looks once, at any time. */
proctype observer() {
end_has_not_looked:
  atomic {
    through == CALLERS && ((in_loop && !readable) || (in_drain && !woken)) -> assert(next_event >= until)
  }
}

init {
  byte t;
  atomic {
    run loop(LOOP);
    for (t : 1 .. CALLERS) {
      run caller(t)
    }
    run observer();
    for (t : 0 .. THREADS - 1) {
      run memory(t)
    }
  }
}
