/* The locks of two rows of the durable checks, on PostgreSQL: who waits for whom.
 *
 * LISTS group commits have a list of both rows, in one statement. WORKS group commits have a statement for each, in
 * opposite orders, as callers came. A node (NODE) claims and completes both, what it can in one transaction. A user
 * (USER) cancels or locks rows, in any order, in a transaction that may then stay open for ever. PostgreSQL locks a row
 * before it looks again whether the row is pending, and keeps that lock if it is not.
 *
 * Nobody but the user waits for ever: each comes to its end. The node has then completed what the user's transaction
 * has neither cancelled nor locked on purpose.
 *
 * right: LISTS=3
 * right: LISTS=1 WORKS=2
 * right: LISTS=1 NODE
 * right: NODE USER
 * right: WORKS=1 NODE USER
 * wrong: LISTS=2 UNSORTED: a list is not in the order of its keys
 * wrong: WORKS=2 NO_LOCK_WAIT: a group commit waits for a row for as long as it takes
 * wrong: NODE USER NO_SAVEPOINT: a cancel that changed nothing keeps the lock of its row
 * wrong: NODE USER CLAIMS_WAIT: a claim waits for a row that a user has locked
 * wrong: NODE USER ENDS_WAIT: an end waits for a row that a user has locked
 */

#ifndef LISTS
#define LISTS 0
#endif
#ifndef WORKS
#define WORKS 0
#endif

#define PENDING 0
#define LEASED 1
#define GONE 2
byte row[2] = PENDING;
byte locked[2] = 0;      /* by whom */
bool is_users[2] = false; /* cancelled, or locked on purpose, by the user's open transaction */

#define me (_pid + 1)

inline let_go() {
  locked[0] = (locked[0] == me -> 0 : locked[0]);
  locked[1] = (locked[1] == me -> 0 : locked[1])
}

#if LISTS > 0
active [LISTS] proctype list() {
#ifdef UNSORTED
  byte first = _pid % 2;
#else
  byte first = 0;
#endif
  atomic { locked[first] == 0 -> locked[first] = me };
  atomic { locked[1 - first] == 0 -> locked[1 - first] = me };
  atomic { let_go() }
}
#endif

#if WORKS > 0
/* Who waits for longer than `lock_wait` gives all up, and tries each alone. What is locked even then fails. */
active [WORKS] proctype work() {
  byte first = _pid % 2;
  byte alone = 0;
  if
  :: atomic { locked[first] == 0 -> locked[first] = me }
#ifndef NO_LOCK_WAIT
  :: atomic { locked[first] != 0 -> goto each_alone }
#endif
  fi;
  if
  :: atomic { locked[1 - first] == 0 -> let_go(); goto end }
#ifndef NO_LOCK_WAIT
  :: atomic { locked[1 - first] != 0 -> let_go() }
#endif
  fi;
each_alone:
  do
  :: atomic { alone == 2 -> break }
  :: atomic { alone < 2 && locked[alone] == 0 -> locked[alone] = me };
     atomic { let_go(); alone++ }
  :: atomic { alone < 2 && locked[alone] != 0 -> alone++ }
  od;
end:
  skip
}
#endif

#ifdef NODE
#define can_do(r) (row[r] != GONE && locked[r] == 0)
#define is_over(r) (row[r] == GONE || is_users[r])
#ifdef CLAIMS_WAIT
#define leaves_out_pending (false)
#else
#define leaves_out_pending (true)
#endif
#ifdef ENDS_WAIT
#define leaves_out_leased (false)
#else
#define leaves_out_leased (true)
#endif

/* One statement of a transaction. */
inline change_all_that_are(state, leaves_out) {
  r = 0;
  do
  :: atomic { r < 2 && row[r] == state && locked[r] == 0 -> locked[r] = me; r++ }
  :: atomic { r < 2 && row[r] == state && locked[r] != 0 && leaves_out -> r++ }
  :: atomic { r < 2 && row[r] != state -> r++ }
  :: atomic { r == 2 -> r = 0; break }
  od
}

inline commit(r) {
  row[r] = (locked[r] != me -> row[r] : (row[r] == PENDING -> LEASED : GONE))
}

active proctype node() {
  byte r = 0;
  do
  :: atomic { is_over(0) && is_over(1) -> break }
  :: atomic { can_do(0) || can_do(1) };
     change_all_that_are(LEASED, leaves_out_leased);
     change_all_that_are(PENDING, leaves_out_pending);
     atomic { commit(0); commit(1); let_go() }
  od
}
#endif

#ifdef USER
active proctype user() {
  byte r;
  byte calls = 0;
  do
  :: atomic { calls < 2 -> calls++;
       if
       :: r = 0
       :: r = 1
       fi
     };
     if
     :: atomic { locked[r] == 0 && row[r] != GONE -> locked[r] = me; is_users[r] = true } /* SELECT … FOR UPDATE */
     :: atomic { row[r] == PENDING && locked[r] != me }; /* a cancel's snapshot */
        atomic {
          locked[r] == 0 ->
          if
          :: row[r] == PENDING -> locked[r] = me; is_users[r] = true
#ifdef NO_SAVEPOINT
          :: row[r] == LEASED -> locked[r] = me
#endif
          :: else
          fi
        }
     :: true
     fi
  :: atomic { true -> let_go(); is_users[0] = false; is_users[1] = false; break } /* rolled back */
  :: atomic { calls == 2 -> goto end_open }
  od;
  goto end_over;
end_open:
  false;
end_over:
  skip
}
#endif
