# frozen_string_literal: true

# A headless Chromium with one page, driven over its DevTools protocol. The browser tests use it; it
# is no part of Gyre. It talks over a pair of pipes (--remote-debugging-pipe: JSON, each message
# ended by NUL), so it needs no WebSocket and no port. Everything it writes goes to a directory of
# its own, which `close` removes.

require "fileutils"
require "io/nonblock"
require "io/wait"
require "json"
require "tmpdir"

class Chromium
  PROGRAMS = %w[chromium chromium-browser google-chrome].freeze
  FLAGS = %w[
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --disable-dev-shm-usage --disable-extensions --hide-scrollbars
    --remote-debugging-pipe
  ].freeze
  ANY_CERTIFICATE = "--ignore-certificate-errors"
  START_TIMEOUT_S = 60
  ANSWER_TIMEOUT_S = 60

  class Error < StandardError; end

  # Returns the path of the browser, nil when none is installed.
  def self.program
    folders = ENV.fetch("PATH", "").split(File::PATH_SEPARATOR)
    PROGRAMS.product(folders).map { |name, folder| File.join(folder, name) }.find { |path| File.executable?(path) }
  end

  # Opens a browser for the block and ends it afterwards. `flags`: more of its command line.
  def self.open(*flags)
    browser = new(*flags)
    yield browser
  ensure
    browser&.close
  end

  # Returns what the page complained of so far: console errors, exceptions, failed loads.
  attr_reader :complaints

  def initialize(*flags)
    @directory = Dir.mktmpdir("chromium")
    @complaints = []
    @last_id = 0
    start(flags)
    target = command("Target.createTarget", { url: "about:blank" }, timeout_s: START_TIMEOUT_S)["targetId"]
    @session = command("Target.attachToTarget", { targetId: target, flatten: true })["sessionId"]
    %w[Page Runtime Log].each { |domain| command("#{domain}.enable") }
  rescue StandardError
    close
    raise
  end

  # From now on certificates that nobody has signed are good, for pages and what they fetch. For
  # their WebSockets it takes ANY_CERTIFICATE from the start.
  def take_any_certificate
    command("Security.setIgnoreCertificateErrors", { ignore: true })
  end

  # Loads a page; returns when its load event has come.
  def visit(url)
    @loaded = false
    failure = command("Page.navigate", { url: url })["errorText"]
    raise Error, "load #{url}: #{failure}" if failure

    deadline = now + ANSWER_TIMEOUT_S
    receive(deadline) until @loaded
  end

  def look_like(width:, height:, dark: false, mobile: false)
    command("Emulation.setDeviceMetricsOverride", { width: width, height: height, deviceScaleFactor: 1, mobile: mobile })
    scheme = { name: "prefers-color-scheme", value: dark ? "dark" : "light" }
    command("Emulation.setEmulatedMedia", { features: [scheme] })
  end

  def evaluate(expression)
    answer = command("Runtime.evaluate", { expression: expression, awaitPromise: true, returnByValue: true, userGesture: true })
    thrown = answer["exceptionDetails"]
    raise Error, "#{expression}: #{thrown.dig("exception", "description") || thrown["text"]}" if thrown

    answer.dig("result", "value")
  end

  # Waits until the JavaScript expression is true in the page.
  def wait_until(expression, timeout_s: 60)
    deadline = now + timeout_s
    loop do
      value = evaluate(expression)
      return value if value
      raise Error, "not true within #{timeout_s} s: #{expression}; the page: #{seen}" if now > deadline

      evaluate("new Promise((again) => setTimeout(again, 25))")
    end
  end

  # Writes a PNG of the whole page.
  def screenshot(path)
    FileUtils.mkdir_p(File.dirname(path))
    size = command("Page.getLayoutMetrics")["cssContentSize"]
    clip = { x: 0, y: 0, width: size["width"], height: size["height"], scale: 1 }
    picture = command("Page.captureScreenshot", { captureBeyondViewport: true, clip: clip })
    File.binwrite(path, picture["data"].unpack1("m"))
  end

  # Ends the browser at once; nothing of it stays.
  def close
    if @pid
      Process.kill(:KILL, -@pid) # its own process group; everything in it is ours
      Process.wait(@pid)
      @pid = nil
    end
    [@commands, @answers].each { |pipe| pipe&.close }
    remove_directory
  end

  private

  # Returns what tells why a page is not as it should be.
  def seen
    offline = evaluate("!!document.querySelector('[live-offline]')")
    { offline: offline, complaints: @complaints, text: evaluate("document.body?.innerText").to_s[0, 1000] }
  end

  def start(more)
    commands, @commands = IO.pipe
    @answers, answers = IO.pipe
    @answers.binmode
    [commands, answers].each { |pipe| pipe.nonblock = false } # Chromium takes EAGAIN for the end
    flags = FLAGS + more + ["--user-data-dir=#{@directory}/profile"]
    @pid = Process.spawn(environment, self.class.program, *flags, 3 => commands, 4 => answers, pgroup: true,
                                                                  out: File.join(@directory, "log"), err: %i[child out])
  ensure
    [commands, answers].each { |pipe| pipe&.close }
  end

  # Crash reports, caches and sockets go to the directory too. A sanitizer that the tests run under
  # is not for Chromium.
  def environment
    { "HOME" => @directory, "TMPDIR" => @directory, "LD_PRELOAD" => nil, "ASAN_OPTIONS" => nil, "UBSAN_OPTIONS" => nil }
  end

  def command(method, params = {}, timeout_s: ANSWER_TIMEOUT_S)
    id = @last_id += 1
    message = { id: id, method: method, params: params }
    message[:sessionId] = @session if @session
    @commands.write(JSON.generate(message), "\0")
    deadline = now + timeout_s
    loop do
      answer = receive(deadline)
      next unless answer["id"] == id
      raise Error, "#{method}: #{answer["error"]["message"]}" if answer["error"]

      return answer["result"]
    end
  end

  def receive(deadline)
    raise Error, "no answer from Chromium; it said: #{log}" unless @answers.wait_readable([deadline - now, 0].max)

    message = @answers.gets("\0", chomp: true) or raise Error, "Chromium ended; it said: #{log}"
    message = JSON.parse(message)
    note(message)
    message
  end

  def note(message)
    params = message["params"]
    case message["method"]
    when "Page.loadEventFired" then @loaded = true
    when "Runtime.exceptionThrown"
      details = params["exceptionDetails"]
      @complaints << (details.dig("exception", "description") || details["text"])
    when "Runtime.consoleAPICalled"
      complain(params["type"], params["args"].map { |value| value["value"] || value["description"] })
    when "Log.entryAdded"
      entry = params["entry"]
      complain(entry["level"], [entry["text"], entry["url"]])
    end
  end

  def complain(level, words)
    @complaints << words.compact.join(" ") if %w[error warning].include?(level)
  end

  # The browser's helpers die a moment after it and may still write.
  def remove_directory(tries = 50)
    FileUtils.remove_entry(@directory) if File.exist?(@directory)
  rescue Errno::ENOTEMPTY
    raise if tries.zero?

    sleep 0.02
    remove_directory(tries - 1)
  end

  def log
    File.read(File.join(@directory, "log")).lines.last(20).join
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
