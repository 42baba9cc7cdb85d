# frozen_string_literal: true

# Lines of syslog as devices and programs send them, for `rake compare:syslog`. A group is a reason
# why Gyre reads its lines in another way than rsyslog; nil: both read them alike.

module SyslogLines
  # What may differ, and why. Everything else of a line (host, severity, facility, time) agrees.
  REASONS = {
    words: "a word without a colon is not a tag: a message without a tag is kept whole, with the service syslog",
    marks: "a tag has letters, digits and _ . / - ( ) [ ] only, so that text (JSON, key=value, Cisco's mnemonics) does not become a service",
    counters: "what Cisco's devices write before a message (a counter, a host, a time) is not a tag; the counter becomes id=",
    addresses: "an address of IPv6 is a host; a time or a URL is not a tag",
    times: "times that rsyslog does not know (no zone, a zone without a colon) are times; the message has the tag behind them",
    bare: "without a priority, only a time and a tag show that a line is a message of syslog; rsyslog takes the first words for host and tag",
    hostless: "a host without a time before it is not told from text; rsyslog takes the first word for the host",
    priorities: "a wrong priority is of no message: the line is kept whole with the severity of one without; rsyslog has facility invld",
    broken: "a message of RFC 5424 that is cut or broken is kept whole; rsyslog takes the parts that it finds",
    nothing: "a name of RFC 5424 that is - is the service syslog; rsyslog writes -",
    data: "structured data must end with a space; rsyslog takes the next byte for a part of it"
  }.freeze

  HEADS = ["Nov 21 19:20:00 web1 ", "2026-11-21T19:20:00+01:00 web1 ", "2026-11-21T19:20:00.123456Z db-2.example.com "].freeze
  PROGRAMS = [
    "sshd[1122]: Accepted publickey for root from 10.0.0.7 port 50412 ssh2: ED25519 SHA256:abc",
    "sshd[1122]: pam_unix(sshd:session): session opened for user root",
    "CRON[4711]: (root) CMD (/usr/lib/php/sessionclean)",
    "systemd[1]: Started Session 12 of user root.",
    "systemd-logind[700]: New session 12 of user root.",
    "(sd-pam)[801]: pam_unix(systemd-user:session): session closed",
    "kernel: [12345.678901] eth0: link becomes ready",
    "kernel: usb 1-1: new high-speed USB device",
    "postfix/smtpd[2001]: connect from mail.example.com[192.0.2.1]",
    "postfix/qmgr[99]: 4F1B2: from=<a@example.com>, size=1024, nrcpt=1 (queue active)",
    "dovecot: imap-login: Login: user=<bob>, method=PLAIN, rip=192.0.2.5",
    "named[53]: client @0x7f 192.0.2.5#53211 (example.com): query: example.com IN A +E(0)",
    "dhcpd: DHCPACK on 192.0.2.77 to 00:11:22:33:44:55 via eth0",
    "nginx: 192.0.2.9 - - [21/Nov/2026:19:20:00 +0100] \"GET / HTTP/1.1\" 200 612 \"-\" \"curl/8\"",
    "haproxy[3000]: 10.0.0.1:4711 [21/Nov/2026:19:20:00.123] http-in app/web1 0/0/1/2/3 200 120 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\"",
    "sudo:    alice : TTY=pts/0 ; PWD=/srv/alice ; USER=root ; COMMAND=/bin/ls",
    "su[77]: (to root) alice on pts/1",
    "auditd[500]: Audit daemon rotating log files",
    "postgres[2200]: [3-1] LOG:  checkpoint starting: time",
    "mysqld: 2026-11-21T18:20:00.000000Z 0 [Warning] [MY-010068] CA certificate is self signed.",
    "dockerd[900]: time=\"2026-11-21T19:20:00Z\" level=info msg=\"Container failed\"",
    "ntpd[123]: time reset +0.123456 s",
    "chronyd[321]: Selected source 192.0.2.123",
    "snmpd[44]: Connection from UDP: [192.0.2.4]:161->[192.0.2.5]:161",
    "asterisk[5060]: NOTICE[123]: chan_sip.c: Registration from '<sip:1@x>' failed",
    "ovpn-server[1194]: client/192.0.2.8:1194 MULTI: Learn: 10.8.0.6",
    "smartd[21]: Device: /dev/sda [SAT], SMART Usage Attribute: 194 changed from 64 to 63",
    "rsyslogd: [origin software=\"rsyslogd\" swVersion=\"8.2302.0\"] start",
    "app/web.1[12]: paid",
    "java: at com.example.Main.main(Main.java:5)",
    "firewalld[8]: WARNING: ALREADY_ENABLED: http",
    "gunicorn[9]: [2026-11-21 19:20:00 +0000] [9] [INFO] Booting worker",
    "puma.3[55]: - Worker 0 booted",
    "cloud-init[3]: Cloud-init v. 22.4 running 'modules:final'",
    "rpc.statd[17]: Version 2.6.2 starting",
    "NetworkManager[5]: <info>  [1700000000.1] device (eth0): state change"
  ].freeze
  BARE_OF_HOST = ["Nov 21 19:20:00 cron[9]: (root) CMD (x)",
    "Nov  1 09:05:07 logger: a day with one digit",
    "Nov 1 09:05:07 logger: a day without padding",
    "logger: without a time",
                  "syslog[12]: libc's form",
    "Nov 21 19:20:00.123 camera[3]: motion",
    "Nov 21 19:20:00 camera:no space",
    "camera:no space and no time",
    " Nov 21 19:20:00 spaces: before"].freeze
  OTHERS = [
    "Nov 21 2026 19:20:00 fw1 shop[5]: a year",
    "2026 Nov 21 19:20:00 fw1 shop[5]: a year before",
    "nov 21 19:20:00 fw1 shop: a small month",
    "Nov 21 19:20:00 10.0.0.1 shop[1]: an address",
    "Nov 21 19:20:00 web_1 shop[1] a tag without a colon",
    "Nov 21 19:20:00 web1 shop[1]:no space",
    "Nov 21 19:20:00 web1 CEF:0|Vendor|Product|1.0|100|name|3|src=10.0.0.1",
    "Nov 21 19:20:00 web1 LEEF:1.0|Vendor|Product|1|2|src=10.0.0.1",
    "Nov 21 19:20:00 dock nginx:1.25[4711]: GET /",
    "Nov 21 19:20:00 dock localhost:5000/nginx:latest/web/0123abcd[4711]: GET /",
    "Nov 21 19:20:00 dock docker/0123456789ab[900]: hello",
    "2026-11-21T19:20:00.123456789Z web1 shop[5]: nanoseconds",
    "2026-11-21T19:20:00.5-07:00 web1 shop: a fraction",
    "Nov 21 19:20:00 web1 a:b c",
    "Nov 21 19:20:00 web1: shop: a colon behind the host",
    "backup: %5 done",
    "Aug 07 22:14:15 mymachine su: a day with a zero",
    "Aug 14 13:10:13 charon: 13[MGR] checkout IKEv1 SA by message with SPIs 7f414ab7_i",
    "Aug  4 16:53:13 pinger[1334]: 64 bytes from 192.0.2.242: seq=69 ttl=37 time=33.918 ms",
    "2022-03-07T09:33:22.936Z esx1 Hostd: verbose hostd[79A7B80] [Originator@6876 sub=PropertyProvider] RecordOp ASSIGN",
    "Feb  5 16:30:01 host.loc CROND[48969] (root) CMD (/usr/sbin/logrotate)"
  ].freeze
  NEW = [
    "1 2022-03-29T18:04:30.415522+02:00 proxy1 squid: [2022-03-29T18:04:30.415+0200] 10.0.0.1 - - - \"CONNECT a.test:443 HTTP/1.0\" 200 0 65",
    "1 2022-04-04T12:16:55.790Z esx03 vpxa 2356178 - [Originator@6876 sub=VpxaCnxHostd opID=WFU-34799d2d] FetchingUpdatesDone callback",
    "1 2020-05-26T18:36:57.000000+01:00 zc4430 kernel - - - [  128.604348] bcmgenet eth0: Link is Down",
    "1 2016-07-17T21:00:55.451768+00:00 app web.1 - - source=rack-timeout id=41a7 age=9ms",
    "1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - 'su root' failed for lonvick on /dev/pts/8",
    "1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.",
    "1 2003-10-11T22:14:15.003Z h evntslog - ID47 [exampleSDID@32473 iut=\"3\" eventSource=\"Application\" eventID=\"1011\"] An application event",
    "1 2003-10-11T22:14:15.003Z h evntslog - ID47 [a@1 b=\"3\"][e@2 f=\"g \\\"x\\\" \\]\"] two elements",
    "1 2025-04-15T23:19:09+02:00 nas1 WinFileService - - [synolog@6574 param=\"workgroup\\\\user\"][meta sequenceId=\"10\"] Event: read",
    "1 2003-10-11T22:14:15.003Z h evntslog - ID47 [a@32473 key=\"[value\\] more data\"][b@32473 class=\"high\"] Some message",
    "1 2022-09-22T13:07:54.228490+00:00 h api 5 - [meta@123 field=\"\\\"Hello\\\" \\A/World\"] 10.0.0.1 - - [22/Sep/2022:13:07:54 +0000]",
    "1 2020-02-03T10:00:00Z h app 1 - [e@123 a=\"b\"][meta c=\"d\"] [this is message]",
    "1 2026-11-21T19:20:00Z web1 shop 5 - - hello",
    "1 2026-11-21T19:20:00Z web1 shop 5 - hello there",
    "1 2026-11-21T19:20:00+01:00 web1 shop - - [meta sequenceId=\"29\"] \xEF\xBB\xBFutf-8",
    "1 2026-11-21T19:20:00.123456Z web1 postfix/smtpd 5 - - {\"a\": 1}",
    "1 2014-01-09T20:34:44.693891+00:00 host app web.3 - Starting process with command `bin/rails`",
    "1 2014-01-09T20:34:44.693891+00:00 host heroku router - at=info method=GET path=/",
    "1 2026-11-21T19:20:00Z web1 app 5 - [timeQuality tzKnown=\"1\" isSynced=\"1\"] logger",
    "1 2026-11-21T19:20:00.000Z fw RT_FLOW - RT_FLOW_SESSION_CREATE [junos@2636.1 src=\"10.0.0.1\"] session created"
  ].freeze
  DIFFERENT = {
    words: ["Nov 21 19:20:00 web1",
    "Nov 21 19:20:00 web1 last message repeated 3 times",
    "Nov 21 19:20:00 web1 shop hello",
    "Nov 21 19:20:00 web1 hello",
    "Nov 21 19:20:00 ap1 STA 00:11:22:33:44:55 associated",
    "Jan 20 21:10:46 bigip5g warning tmm1[12512]: 01260013:4: SSL Handshake failed",
    "Jul 27 11:49:31 ise1 CISE_Failed_Attempts 0000642211 4 3  Response={RadiusPacketType=AccessReject; }"],
    marks: ["Nov 21 19:20:00 web1 {\"level\": \"info\", \"msg\": \"x\"}",
    "Nov 21 19:20:00 {\"level\": \"info\"}",
    "Nov 21 19:20:00 fw date=2026-11-21 time=19:20:00 devname=\"FG\" logid=\"1\"",
            "Nov 21 19:20:00 fw1 %ASA-6-302013: Built outbound TCP",
    "<166>Nov 21 2026 19:20:00: %ASA-6-302013: Built outbound",
    "%ASA-6-302013: Built",
    "Nov 21 19:20:00 fw1 : %ASA-6-1: Built",
            "Nov 21 19:20:00 web1 key=value: x",
    "Nov 21 19:20:00 pa 1,2026/11/21 19:20:00,0011,TRAFFIC,end",
    "Nov 21 19:20:00.123: %SYS-5-CONFIG_I: Configured",
    "Nov 21 19:20:00 ikea: ok".sub("ikea",
    "caf\u00e9"),
            "Nov 21 19:20:00 web1 C:\\app\\x.log opened",
    "Nov 21 19:20:00 web1 user@host: x",
    "Nov 21 19:20:00 web1 [error] it: failed",
    "Nov 21 19:20:00 web1 filterlog,5: x"],
    counters: ["<189>123: Nov 21 19:20:00.123: %SYS-5-CONFIG_I: Configured from console",
    "<189>123: router1: *Nov 21 19:20:00.123 UTC: %SYS-5-CONFIG_I: x",
    "<189>45: %SYS-5-RESTART: x",
    "<189>46: router1: %SYS-5-RESTART: x",
               "<189>000123: .Nov 21 19:20:00: %LINK-3-UPDOWN: down",
    "<189>Nov 21 19:20:00 UTC: %LINK-3-UPDOWN: down",
    "<166>:Nov 21 19:20:00 UTC: %ASA-session-6-302013: Built",
    "123: no cisco"],
    addresses: ["Nov 21 19:20:00 2001:db8::1 shop[1]: x",
    "Nov 21 19:20:00 fe80::1 shop: x",
    "Nov 21 19:20:00 web1 http://example.com/ is down",
    "Nov 21 19:20:00 web1 12:30:00 it began"],
    times: ["2026-11-21T19:20:00+0100 web1 shop: x",
    "2026-11-21T19:20:00 web1 shop: x",
    "2026-11-21 19:20:00 web1 shop: x"],
    hostless: ["web1 shop: x",
    "it is text: x",
    "hello",
    "ap-3 hostapd: wlan0: STA 00:11:22:33:44:55"],
    nothing: ["1 - - - - - - nothing",
    "1 2026-11-21T19:20:00Z - - - - - only a time"],
    broken: ["1 2026-11-21T19:20:00Z web1 shop 5",
    "1 Nov 21 19:20:00 web1 shop[3]: an old time",
    "1 2026-11-21T19:20:00Z web1 shop 5 - [a b=\"",
    "1 - web1 shop 5 - no data"],
    data: ["1 2026-11-21T19:20:00Z web1 shop 5 ID [a b=\"c\"]text"]
  }.freeze
  WHOLE = {
    bare: ["it is text",
    "at com.example.Main.main(Main.java:5)",
    "hello: there",
    "  indented"],
    priorities: ["<999>Nov 21 19:20:00 web1 shop[5]: x",
    "<192>shop: x",
    "<>shop: x",
    "<a>shop: x"],
    nil => ["Nov 21 19:20:00 web1 shop[5]: without a priority",
    "2026-11-21T19:20:00Z web1 shop[5]: without a priority"]
  }.freeze

  Line = Struct.new(:text, :reason)

  # Each line once, with priorities in turn.
  ALL = begin
    priorities = [34, 13, 165, 0, 191, 78, 22, 134, 30, 86, 3, 185].cycle
    with = ->(text) { (text.start_with?("<") ? text : "<#{priorities.next}>#{text}").b }
    alike = HEADS.flat_map { |head| PROGRAMS.map { |program| head + program } } + BARE_OF_HOST + OTHERS + NEW
    alike.map { |text| Line.new(with.call(text), nil) } +
      DIFFERENT.flat_map { |reason, texts| texts.map { |text| Line.new(with.call(text), reason) } } +
      WHOLE.flat_map { |reason, texts| texts.map { |text| Line.new(text.b, reason) } }
  end.freeze
end
