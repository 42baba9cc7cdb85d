# frozen_string_literal: true

# Analogger's configuration in every form, ours beside it, and each mistake with its line.

require "test_helper"
require "gyre/cli/log/configuration"

class LogConfigurationTest < Minitest::Test
  Configuration = Gyre::CLI::Log::Configuration

  # As Analogger's own tests have it.
  ANALOGGERS = <<~YAML
    ---
    port: 47990
    host: 127.0.0.1
    default_log: log/default.log
    daemonize: false
    syncinterval: 1
    pidfile: log/analogger.pid
    secret: never used
    key: open sesame
    interval: 2
    levels: debug,info
    logs:
    - service:
      - a
      - b
      logfile: log/a.log
      cull: true
      levels: a,b,c,d
    - service: c
      logfile: log/c.log
    - service: stderr
      logfile: stderr
      cull: true
      default: true
    - service: e
      logfile: 127.0.0.1
      type: socket
      options:
      - 47993
  YAML

  def parse(text)
    Configuration.parse(text, "log.yml")
  end

  def mistakes(text)
    assert_raises(Configuration::Invalid) { parse(text) }.mistakes
  end

  def log_settings(text)
    parse("logs:\n#{text}").settings[:logs]
  end

  def test_analoggers_own_configuration_is_read_as_it_is
    settings = parse(ANALOGGERS).settings
    assert_equal [["tcp://127.0.0.1:47990"], "open sesame", 2, 1], settings.values_at(:bind, :key, :interval, :sync_interval)
    assert_equal({ logfile: "log/default.log", levels: %w[debug info] }, settings[:default_log])
    assert_equal [%w[a b], %w[c], %w[stderr], %w[e]], settings[:logs].map { |log| log[:services] }
    assert_equal ["log/a.log", "log/c.log", "STDERR", "127.0.0.1"], settings[:logs].map { |log| log[:logfile] }
    assert_equal [true, nil, true, nil], settings[:logs].map { |log| log[:cull] }
    assert_equal ["socket", [47_993]], settings[:logs].last.values_at(:type, :options)
    refute parse(ANALOGGERS).values[:daemonize]
    assert_equal "log/analogger.pid", parse(ANALOGGERS).values[:pidfile]
  end

  def test_what_analogger_ignores_is_ignored_with_a_word
    assert_equal ["log.yml:8: secret: does nothing, as in Analogger; it may be removed",
                  "log.yml:24: logs[3].default: does nothing, as in Analogger; it may be removed"], parse(ANALOGGERS).notices
  end

  def test_levels_may_be_one_some_with_or_without_spaces_a_list_or_a_mapping
    forms = ["info", "info,warn", "info, warn", "' info ,warn,'", "[info, warn]", "{info: true, warn: true}",
             "\n- :info\n- 404", "\n  :info: true"]
    expected = [%w[info], %w[info warn], %w[info warn], %w[info warn], %w[info warn], %w[info warn], %w[info 404], %w[info]]
    assert_equal expected, forms.map { |form| parse("levels: #{form}").values[:levels] }
    assert_nil log_settings("- {service: a, logfile: b}").first[:levels]
  end

  def test_a_log_without_levels_has_all_and_not_those_of_the_top
    settings = parse("levels: info\nlogs: [{service: a, logfile: b}]").settings
    assert_equal [%w[info], nil, nil], [settings[:default_log][:levels], settings[:logs].first[:levels], settings[:levels]]
  end

  def test_levels_that_allow_less_than_they_seem_to_are_reported
    assert_equal ["log.yml:1: levels: warn is let through, as in Analogger, whatever its value; remove it"],
                 parse("levels: {info: true, warn: false}").notices
    assert_equal ["log.yml:1: levels: lets nothing through"], parse("levels: []").notices
    assert_equal ["log.yml:1: levels: must be severities, as in: debug,info,warn, not \"\""], mistakes("levels: ''")
  end

  def test_empty_values_are_defaults
    settings = parse("port:\nhost: ~\nkey:\ninterval:\nsyncinterval:\nlogs:\nlevels:\ndefault_log:\n").settings
    assert_equal [["tcp://127.0.0.1:6766"], nil, 1, 60, []], settings.values_at(:bind, :key, :interval, :sync_interval, :logs)
    assert_equal "STDOUT", settings[:default_log][:logfile]
  end

  def test_syncinterval_0_is_off
    assert_equal [0, 0, 0.5], ["0", "'0'", "0.5"].map { |value| parse("syncinterval: #{value}").settings[:sync_interval] }
  end

  def test_numbers_may_stand_in_quotes
    assert_equal [["tcp://127.0.0.1:6767"], 2, 1.5],
                 parse("port: '6767'\ninterval: '2'\nsyncinterval: '1.5'").settings.values_at(:bind, :interval, :sync_interval)
  end

  def test_a_dash_is_standard_output
    assert_equal %w[STDOUT STDOUT STDERR a], ["'-'", "stdout", "StdErr", "a"].map { |path| parse("default_log: #{path}").default_log }
  end

  def test_without_a_file_messages_go_to_log
    Dir.mktmpdir do |folder|
      Dir.chdir(folder) do
        assert_equal "log", Configuration.new.default_log
        Dir.mkdir("log")
        assert_equal "log/default.log", Configuration.new.settings[:default_log][:logfile]
      end
    end
  end

  def test_a_host_of_ipv6_gets_its_brackets
    assert_equal [["tcp://[::1]:6766"]] * 2, ["'::1'", "'[::1]'"].map { |host| parse("host: #{host}").addresses }
  end

  def test_aliases_and_merge_keys
    logs = log_settings(<<~YAML)
      - &first
        service: a
        logfile: a.log
        levels: &some [info, warn]
      - <<: *first
        service: b
      - service: c
        logfile: c.log
        levels: *some
    YAML
    assert_equal [["a", "a.log", %w[info warn]], ["b", "a.log", %w[info warn]], ["c", "c.log", %w[info warn]]],
                 logs.map { |log| [log[:services].first, log[:logfile], log[:levels]] }
  end

  def test_ours
    settings = parse(<<~YAML).settings
      bind: [tcp://127.0.0.1:1, "unix:///tmp/log.sock"]
      tls: {cert: c.pem, key: k.pem, ca: ca.pem, verify: true}
      rotate: {size: 100M, every: day, keep: 7, compress: gzip}
      format: json
      raw: true
      logs:
      - {service: a, logfile: a.log}
      - {service: b, logfile: b.log, format: text, raw: false, rotate: {every: 2 hours, compress: none}}
    YAML
    assert_equal ["tcp://127.0.0.1:1", "unix:///tmp/log.sock"], settings[:bind]
    assert_equal({ cert: "c.pem", key: "k.pem", ca: "ca.pem", verify: true }, settings[:tls])
    first, second = settings[:logs]
    assert_equal ["json", true, { size: 100 << 20, every: 86_400, keep: 7, compress: :gzip }], first.values_at(:format, :raw, :rotate)
    assert_equal ["text", false, { every: 7200, compress: false }], second.values_at(:format, :raw, :rotate)
  end

  def test_all_mistakes_are_reported_at_once_each_with_its_line
    assert_equal <<~TEXT.lines(chomp: true), mistakes(<<~YAML)
      log.yml:1: port: must be a port, 0 to 65535, not 99999
      log.yml:2: defualt_log: unknown key; did you mean default_log?
      log.yml:3: interval: must be a time like 1.5 or "2 minutes", at least 0, not -1
      log.yml:4: tls: needs key
      log.yml:8: logs[1].cull: must be true or false, not "maybe"
      log.yml:9: logs[2]: has no logfile: name a path, STDOUT or STDERR
      log.yml:10: logs[2].file: unknown key; write logfile
      log.yml:11: logs[3]: must be keys with values
      log.yml:13: rotate.size: must be a number of bytes like 500, 64k or 10M, not "10Q"
      log.yml:14: rotate.every: must be a time like 1.5 or "2 minutes", above 0, not "fortnight"
    TEXT
      port: 99999
      defualt_log: a
      interval: -1
      tls: {cert: a}
      logs:
      - service: a
        logfile: a
        cull: maybe
      - service: b
        file: b
      - c
      rotate:
        size: 10Q
        every: fortnight
    YAML
  end

  def test_an_invalid_configuration
    assert_equal ["log.yml:1: must be keys with values, as in: port: 6766"], mistakes("")
    assert_equal ["log.yml:1: must be keys with values, as in: port: 6766"], mistakes("hello")
    assert_equal ["log.yml:1: is not valid YAML: did not find expected ',' or '}' while parsing a flow mapping"], mistakes("a: {b: c\n")
    assert_equal ["log.yml: is not in UTF-8"], mistakes("host: \xff")
    assert_equal ["log.yml:2: one file has one document; remove the line ---"], mistakes("port: 1\n---\nport: 2\n")
    error = assert_raises(Configuration::Invalid) { Configuration.load("/nowhere/log.yml") }
    assert_equal "/nowhere/log.yml: the configuration cannot be read: no such file or directory", error.message
  end

  def test_nothing_of_ruby_is_made
    assert_equal ["log.yml:1: the tag !ruby/object:Object has no place here; remove it"], mistakes("key: !ruby/object:Object {}")
    assert_equal ["log.yml:1: key: must be text"], mistakes("key: [a]")
  end

  def test_aliases_that_lead_nowhere_or_back
    assert_equal ["log.yml:2: there is no &a above for *a"], mistakes("host: a\nport: *a")
    assert_equal ["log.yml:1: logs[1]: must be keys with values"], mistakes("logs: &a [*a]")
  end

  def test_a_key_twice_is_a_mistake
    assert_equal ["log.yml:3: port: is here twice; keep one of the two"], mistakes("port: 1\nhost: a\nport: 2")
  end

  def test_what_cannot_be_set_together
    assert_equal ["log.yml:2: bind: cannot stand beside port; keep one of them",
                  "log.yml:4: key_file: cannot stand beside key; keep one of them"],
                 mistakes("port: 1\nbind: localhost:2\nkey: a\nkey_file: b")
  end

  def test_one_file_cannot_be_two_things
    assert_equal ['log.yml:1: logs: logs to "a" must have the same format everywhere'],
                 mistakes("logs:\n- {service: a, logfile: a, format: json}\n- {service: b, logfile: ./a}")
    assert_equal ['log.yml:1: logs: logs to "a" must have the same rotate everywhere'],
                 mistakes("logs:\n- {service: a, logfile: a, rotate: {every: day}}\ndefault_log: a")
    assert_empty parse("logs:\n- {service: a, logfile: a, format: json}\n- {service: b, logfile: a}\nformat: json\ndefault_log: a").notices
  end

  def test_a_log_without_service_takes_nothing_and_a_service_twice_counts_last
    configuration = parse("logs:\n- logfile: a\n- {service: b, logfile: b}\n- {service: [b, c], logfile: c}")
    assert_equal ["log.yml:1: logs: service b goes to 2 entries; in Analogger the last one counts",
                  "log.yml:2: logs[1]: has no service, so nothing goes there, as in Analogger"], configuration.notices
    assert_equal %w[b c], configuration.settings[:logs].map { |log| log[:logfile] }
  end

  def test_secrets_are_in_no_message
    text = mistakes("key: {a: topsecret}\nprot: 1\nsecret: topsecret\nlogs: [{service: a, type: redis, logfile: [redis://:topsecret@host]}]").join
    refute_includes text, "topsecret"
    refute_includes parse("key: topsecret").inspect, "topsecret"
    refute_includes parse("key: 0777").notices.join, "511"
  end

  def test_a_key_that_yaml_changes_is_reported
    configuration = parse("key: 0777")
    assert_equal "511", configuration.key # what Analogger makes of it
    assert_equal ["log.yml:1: key: YAML does not read this as text, which changes it; put it in quotes if clients cannot get in"],
                 configuration.notices
    assert_empty parse("key: 1234").notices
  end

  def test_the_key_may_be_in_a_file
    Dir.mktmpdir do |folder|
      path = File.join(folder, "key")
      configuration = parse("key_file: #{path}")
      assert_match(/key: the key cannot be read: no such file/, assert_raises(Configuration::Invalid) { configuration.key }.message)
      File.write(path, "open sesame\n")
      assert_equal "open sesame", configuration.settings[:key]
      File.write(path, "\n")
      assert_match(/holds no key/, assert_raises(Configuration::Invalid) { configuration.key }.message)
    end
  end

  def test_files_and_folders_that_a_file_names_have_to_be_there
    Dir.mktmpdir do |folder|
      path = File.join(folder, "log.yml")
      File.write(path, <<~YAML)
        default_log: #{folder}/a/b.log
        pidfile: #{folder}/c/d.pid
        tls: {cert: #{folder}/cert.pem, key: #{path}}
        logs: [{service: a, logfile: "tcp://localhost:1"}, {service: b, logfile: stdout}, {service: c, logfile: c.log}]
      YAML
      assert_equal ["#{path}:1: default_log: the folder #{folder}/a is not there: make it first",
                    "#{path}:2: pidfile: the folder #{folder}/c is not there: make it first",
                    "#{path}:3: tls: the certificate #{folder}/cert.pem: No such file or directory"],
                   assert_raises(Configuration::Invalid) { Configuration.load(path) }.mistakes
    end
  end

  def test_what_comes_later_wins
    base = parse("bind: [a:1, b:2]\nkey_file: x")
    assert_equal [["tcp://127.0.0.1:7"], "k"], base.merge(port: 7, key: "k").settings.values_at(:bind, :key)
    assert_equal ["c:1"], parse("port: 1").merge(bind: ["c:1"]).addresses
  end
end
