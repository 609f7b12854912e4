#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresError : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  [[nodiscard]] caught opening(const std::string& conninfo, std::chrono::milliseconds timeout = 300ms) const {
    postgres_options some = options;
    some.connect_timeout = timeout;
    return error_of([&] { postgres_store refused(conninfo, some); });
  }

  static int backend_of(transaction& open) { return PQbackendPID(postgres_connection(open)); }
};

/// A port that takes connections, and says nothing.
class silent_port {
 public:
  silent_port() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    auto* address = reinterpret_cast<sockaddr*>(&where);
    EXPECT_EQ(bind(socket_, address, size), 0);
    EXPECT_EQ(listen(socket_, 16), 0);
    EXPECT_EQ(getsockname(socket_, address, &size), 0);
    port_ = ntohs(where.sin_port);
  }
  silent_port(const silent_port&) = delete;
  silent_port& operator=(const silent_port&) = delete;
  ~silent_port() { close(socket_); }

  [[nodiscard]] std::string port() const { return std::to_string(port_); }

  /// Waits for a connection, and ends it.
  void end_one() const { close(accept(socket_, nullptr, nullptr)); }

 private:
  int socket_;
  int port_ = 0;
};

TEST_F(PostgresError, AWrongPasswordIsToldAtOnceAndNotRepeated) {
  const std::string rules = server().data() / "pg_hba.conf";
  const std::string before = server().data() / "before";
  std::filesystem::copy_file(rules, before);
  std::ofstream(rules) << "host all locked 127.0.0.1/32 scram-sha-256\n" << std::ifstream(before).rdbuf();
  user.execute("SET password_encryption='scram-sha-256'; CREATE ROLE locked LOGIN PASSWORD 'right-one'");
  server().reload();
  const std::string login = server().loopback_conninfo() + " user=locked password=";
  const caught wrong = opening(login + "sesame-42", 1h);  // so long if it were repeated
  EXPECT_EQ(sqlstate(wrong), "28P01");
  EXPECT_THAT(wrong.words, HasSubstr("password authentication failed"));
  EXPECT_THAT(wrong.words, Not(HasSubstr("sesame")));
  EXPECT_THAT(wrong.words, Not(HasSubstr("\n")));
  EXPECT_THAT(opening(login + "locked", 1h).words, Not(HasSubstr("locked"))) << "not even by chance";
  EXPECT_EQ(opening(login + "right-one", 5s).words, "");
  std::ofstream(rules) << std::ifstream(before).rdbuf();
  server().reload();
}

/// A certificate for a server on this machine, and its key, which is the server's own file.
std::string made_certificate(const std::string& name) {
  std::string folder = server().folder().string() + "/" + name;
  const std::string make =
      "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
      "subjectAltName=IP:127.0.0.1 -keyout " +
      folder + ".key -out " + folder + ".crt 2>/dev/null";
  EXPECT_EQ(std::system(make.c_str()), 0);  // NOLINT(concurrency-mt-unsafe,cert-env33-c): one thread
  struct stat owner {};
  EXPECT_EQ(stat(server().data().c_str(), &owner), 0);
  EXPECT_EQ(chown((folder + ".key").c_str(), owner.st_uid, owner.st_gid), 0);
  EXPECT_EQ(chmod((folder + ".key").c_str(), 0600), 0);
  return folder;
}

TEST_F(PostgresError, AConnectionIsEncryptedAndTheServerKnownIfTheStringAsksForIt) {
  if (std::system("openssl version >/dev/null 2>&1") != 0) {  // NOLINT(concurrency-mt-unsafe,cert-env33-c): one thread
    GTEST_SKIP() << "no openssl to make a certificate with";
  }
  const std::string ours = made_certificate("ours");
  const std::string other = made_certificate("other");
  server().set("ssl_cert_file", ours + ".crt");
  server().set("ssl_key_file", ours + ".key");
  server().set("ssl", "on");
  const std::string login = server().loopback_conninfo() + " sslmode=verify-full sslrootcert=";
  const caught stranger = opening(login + other + ".crt", 2s);
  EXPECT_THAT(stranger.words, HasSubstr("certificate verify failed"));
  postgres_store safe(login + ours + ".crt", options);
  std::string shown;
  safe.transact(
      [&](store_transaction& open) { shown = ask(open, "SELECT ssl FROM pg_stat_ssl WHERE pid=pg_backend_pid()"); });
  EXPECT_EQ(shown, "t");
  server().set("ssl", "off");
}

TEST_F(PostgresError, AStringThatCannotBeReadIsNotRepeated) {
  for (const char* wrong : {"host=x password=open sesame", "pasword=sesame", "postgres://me:sesame@:x:y/"}) {
    const caught found = opening(wrong);
    EXPECT_TRUE(found.code == timer_errc::invalid_option || sqlstate(found) == "08001") << found.words;
    EXPECT_THAT(found.words, Not(HasSubstr("sesame")));
  }
}

TEST_F(PostgresError, NoServerIsToldWhenTheTimeIsOver) {
  const caught found = opening("host=/nowhere dbname=x password=sesame");
  EXPECT_EQ(sqlstate(found), "08001");
  EXPECT_THAT(found.words, HasSubstr("/nowhere"));
}

TEST_F(PostgresError, WhatTimeDoesNotMendIsToldAtOnce) {
  EXPECT_EQ(sqlstate(opening(server().conninfo() + " dbname=none", 1h)), "3D000");
  EXPECT_EQ(sqlstate(opening(server().conninfo() + " user=none", 1h)), "28000");
}

TEST_F(PostgresError, ASilentServerEndsInAnErrorToo) {
  const silent_port silent;
  const caught found = opening("host=127.0.0.1 sslmode=disable port=" + silent.port());
  EXPECT_EQ(sqlstate(found), "08001");
  EXPECT_THAT(found.words, HasSubstr("no answer in time"));
}

TEST_F(PostgresError, WhatIsKnownOfAServerIsToldThoughTheLastTryHadNoTime) {
  const silent_port silent;
  std::thread first([&] { silent.end_one(); });
  const caught found = opening("host=127.0.0.1 sslmode=disable port=" + silent.port(), 2s);
  first.join();
  EXPECT_THAT(found.words, HasSubstr("closed the connection"));
}

TEST_F(PostgresError, OfSeveralHostsTheOneThatAnswersIsUsed) {
  const silent_port silent;
  const std::string port = std::to_string(server().port());
  EXPECT_EQ(
      opening("host=/nowhere," + server().host() + " port=" + port + "," + port + " dbname=postgres user=postgres", 20s)
          .words,
      "");
  EXPECT_EQ(opening("host=127.0.0.1," + server().host() + " port=" + silent.port() + "," + port +
                        " dbname=postgres user=postgres",
                    6s)
                .words,
            "");
}

TEST_F(PostgresError, AServerThatStartsIsWaitedFor) {
  private_postgres own;
  postgres_options patient = options;
  patient.connect_timeout = 20s;
  postgres_store on_own(own.conninfo(), patient);
  on_own.migrate();
  put(on_own, "a");
  own.stop();
  std::thread starting([&] {
    std::this_thread::sleep_for(300ms);
    own.start();
  });
  EXPECT_TRUE(put(on_own, "b").inserted);
  starting.join();
  EXPECT_THAT(keys_in(on_own), ElementsAre("a", "b"));
}

TEST_F(PostgresError, AConnectionThatDiedMeanwhileIsReplacedUnnoticed) {
  put(store, "a");
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_GT(server().kill_backends(), 0);
    EXPECT_TRUE(put(store, std::to_string(turn)).inserted);
    EXPECT_GT(server().kill_backends(), 0);
    EXPECT_TRUE(store.find("close", "a"));
    EXPECT_GT(server().kill_backends(), 0);
    EXPECT_NE(store.plan_migration().from, "");
  }
}

TEST_F(PostgresError, AConnectionWithoutItsStatementsIsReplaced) {
  put(store, "a");
  store.transact([](store_transaction& open) { ask(open, "DEALLOCATE ALL"); });
  EXPECT_TRUE(store.find("close", "a"));
  store.transact([](store_transaction& open) { ask(open, "DEALLOCATE ALL"); });
  EXPECT_TRUE(works_at_last([&] { put(store, "b"); }));
  EXPECT_THAT(keys_in(store), ElementsAre("a", "b"));
}

TEST_F(PostgresError, ABackendThatIsKilledInATransactionOrBeforeItsCommitUndoesIt) {
  for (const bool before_the_commit : {false, true}) {
    const caught found = error_of([&] {
      store.transact([&](store_transaction& open) {
        open.schedule(asked("a"));
        const std::string backend = std::to_string(backend_of(open));
        user.execute("SELECT pg_terminate_backend(" + backend + ")");
        EXPECT_TRUE(
            wait_until([&] { return user.ask("SELECT count(*) FROM pg_stat_activity WHERE pid=" + backend) == "0"; }));
        before_the_commit ? void() : void(open.schedule(asked("b")));
      });
    });
    EXPECT_EQ(sqlstate(found), "57P01");
    EXPECT_THAT(keys_in(store), IsEmpty());
  }
  EXPECT_TRUE(put(store, "a").inserted);
}

TEST_F(PostgresError, ALockIsWaitedForAsLongAsAStatementMayTake) {
  postgres_options hasty = options;
  hasty.statement_timeout = 2s;
  postgres_store impatient(server().conninfo(), hasty);
  put(store, "a");
  user.execute("BEGIN; SELECT * FROM " + table("check") + " FOR UPDATE");
  EXPECT_EQ(sqlstate(error_of([&] { cancel(impatient, "a"); })), "57014");
  user.execute("ROLLBACK");
  EXPECT_EQ(cancel(impatient, "a"), cancel_result::cancelled);
}

// What waits in the server for a lock while nobody waits for it any more holds a backend, and comes back each second.
TEST_F(PostgresError, ALookThatIsGivenUpDoesNotWaitOnInTheServer) {
  postgres_options hasty = options;
  hasty.statement_timeout = 1s;
  for (const bool prepare : {true, false}) {
    hasty.prepare = prepare;
    postgres_store impatient(server().conninfo() + " application_name=" + schema, hasty);
    all_rows(impatient);
    user.execute("BEGIN; LOCK TABLE " + table("check") + " IN ACCESS EXCLUSIVE MODE");
    EXPECT_EQ(sqlstate(error_of([&] { all_rows(impatient); })), prepare ? "57014" : "08006");
    const sql_session watching(server().conninfo());
    const std::string waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type='Lock' AND application_name='" + schema + "'";
    EXPECT_TRUE(wait_until([&] { return watching.ask(waiting) == "0"; }, 1s)) << prepare;
    user.execute("COMMIT");
    EXPECT_THAT(all_rows(impatient), IsEmpty());
  }
}

TEST_F(PostgresError, ATransactionThatDoesNothingIsEnded) {
  postgres_options hasty = options;
  hasty.transaction_timeout = 100ms;
  postgres_store impatient(server().conninfo(), hasty);
  const caught found = error_of([&] {
    impatient.transact([&](store_transaction& open) {
      open.schedule(asked("a"));
      std::this_thread::sleep_for(400ms);
      open.schedule(asked("b"));
    });
  });
  EXPECT_EQ(sqlstate(found), "25P03");
  EXPECT_TRUE(works_at_last([&] { put(impatient, "a"); }));
}

TEST_F(PostgresError, OptionsOfTheUserStayBesideOurs) {
  const auto shown_in = [&](const std::string& conninfo) {
    postgres_store each(conninfo, options);
    std::string shown;
    each.transact([&](store_transaction& open) { shown = ask(open, "SHOW work_mem"); });
    return shown;
  };
  EXPECT_EQ(shown_in(server().conninfo() + " options='-c work_mem=5MB'"), "5MB");
  setenv("PGOPTIONS", "-c work_mem=6MB", 1);
  const std::string by_environment = shown_in(server().conninfo());
  unsetenv("PGOPTIONS");
  EXPECT_EQ(by_environment, "6MB");
}

TEST_F(PostgresError, AServerThatFallsSilentIsGivenUp) {
  postgres_options hasty = options;
  hasty.statement_timeout = 1s;
  postgres_store impatient(server().conninfo(), hasty);
  int backend = 0;
  const caught found = error_of([&] {
    impatient.transact([&](store_transaction& open) {
      backend = backend_of(open);
      kill(backend, SIGSTOP);
      open.schedule(asked("a"));
    });
  });
  EXPECT_EQ(sqlstate(found), "08006");
  EXPECT_THAT(found.words, HasSubstr("no answer within 2000 ms"));
  EXPECT_TRUE(works_at_last([&] { put(impatient, "b"); })) << "on another connection";
  kill(backend, SIGCONT);
}

TEST_F(PostgresError, AnErrorOfTheServerUndoesAllAndSaysWhat) {
  user.execute("ALTER TABLE " + table("check") + " ADD CHECK(kind<>'refused')");
  const caught found = error_of([&] {
    store.transact([&](store_transaction& open) {
      open.schedule(asked("a"));
      open.schedule({.kind = "refused", .key = "b"});
    });
  });
  EXPECT_EQ(sqlstate(found), "23514");
  EXPECT_THAT(found.words, HasSubstr("scheduling: "));
  EXPECT_THAT(keys_in(store), IsEmpty());
}

TEST_F(PostgresError, ADefaultThatTransactionsOnlyReadIsNoReason) {
  std::vector<long_run> runs(1);
  runs[0].id = runs[0].fence = 1;
  for (const bool prepare : {true, false}) {
    postgres_store writer(server().conninfo() + " options='-c default_transaction_read_only=on'", prepared(prepare));
    const std::string node = prepare ? "a" : "b";
    EXPECT_TRUE(put(writer, node).inserted);
    writer.transact([&](store_transaction& open) { open.drain(node); });
    EXPECT_THAT(writer.renew_shares(node, kinds, 1h).value(), SizeIs(64));
    writer.tell_drained(node, 7);
    writer.tell_long_runs(node, runs);
    static_cast<void>(writer.renew_shares(node, kinds, 1h, true));
  }
  EXPECT_EQ(user.ask("SELECT count(owner) FROM " + table("share")), "0");
  EXPECT_EQ(user.ask("SELECT sum(held) FROM " + table("drained_node")), "14");
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("long_run")), "2");
}

}  // namespace
}  // namespace timing_wheel::durable::test
