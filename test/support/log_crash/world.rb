# frozen_string_literal: true

# One run of the crash test: a server, writers and perhaps a bad network, all forked from this
# process; kills at drawn moments until there were enough; then peace, and the books are read. Used
# by log_crash.rb. It touches no other process.

require "fileutils"
require "socket"

module GyreTest
  module LogCrash
    # A plan (plans.rb) tells what happens how often.
    class World
      PATIENCE_S = 90
      # How a server is awaited before it is killed, and for how long then.
      DELAYS_S = [0.0, 0.004, 0.02, 0.06].freeze

      # Returns what happened, how often.
      attr_reader :counts

      def initialize(plan, seed, folder)
        @plan, @folder = plan, folder
        @random = Random.new(seed)
        @spool = File.join(folder, "spool")
        @stop = File.join(folder, "stop")
        @books = Books.new
        @counts = Hash.new(0)
        @families = {} # pid => Family
        @said = []
        @renamed = 0
      end

      # A writer and its forks, which share a pipe.
      Family = Struct.new(:name, :pid, :pipe, :rest, :children, :reaped)

      def run(kills)
        take_ports
        start_network if @plan.network
        live(kills)
        settle
        read_books
        @books.audit.first(20)
      ensure
        end_all
      end

      def summary
        "#{@plan.name}: #{@counts.sort.map { |what, count| "#{count} #{what}" }.join(", ")}; #{@books.promised} messages promised, " \
          "#{@books.stored} stored"
      end

      # Returns what the processes printed, for a failure.
      def said
        (@said.last(15) + File.binread(File.join(@folder, "server.err")).lines(chomp: true).last(15)).join("\n")
      rescue Errno::ENOENT
        @said.join("\n")
      end

      private

      # --- addresses ---

      # Bound, but not listening, so that no other process gets the port while the server is away;
      # with REUSEADDR the server may have it.
      def take_ports
        @placeholder = Socket.new(:INET, :STREAM)
        @placeholder.setsockopt(:SOCKET, :REUSEADDR, true)
        @placeholder.bind(Addrinfo.tcp("127.0.0.1", 0))
        @server_port = @port = @placeholder.local_address.ip_port
      end

      def start_network
        listener = TCPServer.new("127.0.0.1", 0)
        @port = listener.local_address.ip_port
        seed = draw(1 << 30)
        @network = child { BadNetwork.new(listener, @server_port, seed).run }
        listener.close
      end

      # --- life ---

      def live(kills)
        until @counts[:kills] >= kills
          start_server unless @server || (@away_until && now < @away_until)
          start_writer while @families.size < @plan.writers
          act(@plan.draw(@random))
          hear
          bury
        end
      end

      def act(what)
        sleep(@random.rand * 0.02)
        send(what)
        @counts[what.to_s.tr("_", " ").to_sym] += 1
      end

      # At any moment of its life, the first one too: the server may just be looking at what the
      # last one left.
      def kill_server
        return unless @server

        await_moment unless @random.rand(5).zero?
        sleep(@random.rand * DELAYS_S.sample(random: @random))
        kill(@server)
        bury_server
        @away_until = now + (@random.rand * 0.15) if @random.rand(3).zero?
      end

      # Where it hurts: something is being written just now.
      def await_moment
        sizes = file_sizes
        wait_for(0.3) { reap_server || file_sizes != sizes }
      end

      # The server ends itself at its mine.
      def blow_up_server
        bury_server(kill(@server)) if @server
        start_server(mine: 1 + draw([6, 20, 80].sample(random: @random)))
        wait_for(0.5) { reap_server }
        kill_server if @server
      end

      def kill_writer
        family = @families.values.sample(random: @random) or return
        sleep(@random.rand * 0.01)
        # The whole family at once, or one of them.
        @random.rand(2).zero? ? kill(-family.pid) : kill([family.pid, *family.children].sample(random: @random))
      end

      # The server is away until every writer has a spool; when it is back they begin to send it,
      # and are killed over that.
      def outage
        bury_server(kill(@server)) if @server
        wait_for(0.4) { hear || spools.size > 3 }
        start_server
        wait_for(2) { served? }
        sleep(@random.rand * DELAYS_S.last)
        @families.values.sample(3, random: @random).each { |family| kill(-family.pid) }
      end

      # Its files are renamed, as logrotate does; a part of what comes meanwhile is in the old ones.
      def rename_files
        return unless @server

        @renamed += 1
        %w[all.log apart.log].each do |name|
          path = File.join(@folder, name)
          File.rename(path, format("%<path>s.renamed%<number>05d", path: path, number: @renamed)) if File.exist?(path)
        end
        sleep(@random.rand * 0.03)
        signal(:HUP, @server) if wait_for(2) { served? }
      end

      def hand_over
        return unless @server

        signal(:USR2, @server) if wait_for(2) { served? }
        sleep(@random.rand * 0.5)
      end

      # A restart that gives a service another file.
      def move
        return unless @server

        before = fresh_programs
        signal(:USR2, @server) if wait_for(2) { served? }
        wait_for(PATIENCE_S) { hear || fresh_programs > before || reap_server } # before it serves, a TERM may end Ruby with status 1
      end

      def fresh_programs = File.size?(File.join(@folder, "fresh")).to_i

      # The same by a stop and a start.
      def move_by_a_stop
        end_server
        start_server(moves: 1) unless @server
      end

      def stop_and_go
        return unless @server

        signal(:STOP, @server)
        sleep(@random.rand * 0.6)
        signal(:CONT, @server)
      end

      # Ends in order, as an administrator does it.
      def end_server
        return unless @server && wait_for(2) { served? }

        signal(:TERM, @server)
        status = wait_for(PATIENCE_S) { reap_server } or return @books.faults << "the server did not end"
        @books.faults << "the server ended with #{status}" unless status.success? || status.termsig == 9
      end

      def fill_disk
        bury_server(kill(@server)) if @server
        start_server(room: file_sizes.max.to_i + draw(60_000))
        sleep(@random.rand * 0.4)
        return kill_server if @random.rand(2).zero?

        wait_for(2) { served? }
        signal(:USR1, @server)
        sleep(@random.rand * 0.1)
      end

      def nothing
        sleep(@random.rand * 0.05)
      end

      # --- processes ---

      def start_server(mine: nil, room: nil, moves: 0)
        bury_server
        reader, writer = IO.pipe
        settings = @plan.settings(@random).merge("folder" => @folder, "bind" => "tcp://127.0.0.1:#{@server_port}", "seed" => draw(1 << 30),
                                                 "mine" => mine, "room" => room)
        settings["moves"] &&= moved.size + moves
        @server = child { ServerProcess.run(settings, writer) }
        writer.close
        @served&.close
        @served = reader
        @serves = false
        @counts[:servers] += 1
      end

      # Returns whether it has begun to serve.
      def served?
        return false unless @served

        @serves ||= @served.read_nonblock(1, exception: false) == "!"
      end

      def start_writer(settings = @plan.writer(@random))
        name = "#{settings[:old] ? "old" : "w"}#{@counts[:writers] += 1}"
        @last_old = "#{name}.0" if settings[:old] && settings[:last]
        settings = settings.merge(port: @port, spool: @spool, seed: draw(1 << 30), stop: @stop)
        reader, writer = IO.pipe
        pid = child(group: true) { Writer.new(name, settings, writer).run }
        writer.close
        @families[pid] = Family.new(name, pid, reader, +"", [], false)
      end

      def child(group: false)
        pid = fork do
          status = 1
          Process.setpgid(0, 0) if group
          $stderr.reopen(File.join(@folder, "children.err"), "a").sync = true
          status = yield
        rescue Exception => error # rubocop:disable Lint/RescueException -- nothing must run on into the parent's program
          $stderr.puts(error.full_message(highlight: false))
        ensure
          exit!(status.is_a?(Integer) ? status : 1)
        end
        Process.setpgid(pid, pid) if group
        pid
      rescue Errno::EACCES, Errno::ESRCH
        pid # it was faster
      end

      def kill(pid)
        signal(:KILL, pid)
      end

      def signal(name, pid)
        Process.kill(name, pid) if pid
      rescue Errno::ESRCH
        nil # it has ended
      end

      def reap_server
        return unless @server

        _, status = Process.wait2(@server, Process::WNOHANG)
        return unless status

        @server = nil
        killed(status)
        @counts[:"server kills"] += 1 if status.termsig == 9
        @books.faults << "a server ended by itself: #{status}" unless status.termsig == 9 || status.success?
        status
      end

      def bury_server(_ = nil)
        return unless @server

        wait_for(PATIENCE_S) { reap_server } or raise "the server #{@server} does not end"
      end

      def killed(status)
        @counts[:kills] += 1 if status.termsig == 9
      end

      # --- writers ---

      # What they tell.
      def hear
        @families.each_value do |family|
          while (bytes = family.pipe.read_nonblock(65_536, exception: false)).is_a?(String)
            family.rest << bytes
          end
          family.pipe.close if bytes.nil?
          while (line = family.rest.slice!(/\A[^\n]*\n/))
            heard(family, line.chomp)
          end
        rescue IOError
          next # it was closed
        end
        nil
      end

      def heard(family, line)
        word, name, number = line.split
        case word
        when "ack" then @books.acknowledged(name, Integer(number))
        when "closed" then @books.closed(name, Integer(number))
        when "sent" then @books.closed(name, Integer(number)) if name == @last_old
        when "pid" then family.children << Integer(name)
        else @said << line
        end
      end

      def bury
        @families.delete_if do |pid, family|
          family.reaped ||= Process.wait2(pid, Process::WNOHANG)&.last.tap { |status| writer_ended(family, status) if status }
          family.reaped && family.pipe.closed?
        end
        nil
      end

      # Its forks are found by their pipe's end only; the kernel reaps them.
      def writer_ended(family, status)
        killed(status)
        @counts[:"writer kills"] += 1 if status.termsig == 9
        @said << "#{family.name} ended with #{status}" unless status.success? || status.termsig == 9
      end

      # --- the end ---

      def settle
        signal(:USR1, @network)
        bury_server(kill(@server)) if @server
        File.write(@stop, "")
        start_server
        await_writers
        # The last writer brings what the killed ones have left.
        Plan::SERVICES.each { |service| start_writer(Plan::LAST_WRITER.merge(service: service)) }
        start_writer(Plan::LAST_WRITER.merge(service: "old", old: true))
        await_writers
        @books.faults << "left without adoption: #{spools.join(", ")}" unless spools.empty?
        end_server
      end

      def await_writers
        all_ended = wait_for(PATIENCE_S) { hear || bury || @families.empty? }
        @books.faults << "writers do not end: #{@families.values.map(&:name).join(" ")}" unless all_ended
      end

      def spools
        Dir.exist?(@spool) ? Dir.children(@spool).reject { |name| name.start_with?(".") } : []
      end

      def read_books
        @counts[:"torn commits"] = File.binread(File.join(@folder, "server.err")).scan("a commit was cut off").size
        @books.read(parts(File.join(@folder, "all.log")))
        @books.read(parts(File.join(@folder, "apart.log")) + moved)
      end

      # Files of the service that restarts have moved, in their order.
      def moved = Dir[File.join(@folder, "apart-*.log")].sort_by { |path| path[/\d+(?=\.log)/].to_i }

      # A log's files, the oldest first. Where a plain and a packed one have the same name they are
      # the same, in the midst of packing.
      def parts(path)
        others = Dir["#{path}.*"].grep_v(/\.journal|\.part\z/).reject { |part| File.exist?(part.delete_suffix(".gz")) && part.end_with?(".gz") }
        numbered, named = others.partition { |part| part.match?(/\.\d+(\.gz)?\z/) }
        named.sort + numbered.sort_by { |part| -part[/\.(\d+)(?:\.gz)?\z/, 1].to_i } + [path].select { |plain| File.exist?(plain) }
      end

      def end_all
        [@server, @network].compact.each { |pid| kill(pid) && Process.wait(pid) }
        @families.each_value { |family| kill(-family.pid) }
        @families.each_value { |family| Process.wait(family.pid) unless family.reaped }
      end

      # --- small things ---

      def file_sizes
        %w[all.log apart.log all.log.journal apart.log.journal].map do |name|
          File.size(File.join(@folder, name))
        rescue Errno::ENOENT
          0
        end
      end

      def wait_for(seconds)
        deadline = now + seconds
        until (result = yield)
          return result if now > deadline

          sleep 0.0005
        end
        result
      end

      def draw(limit)
        @random.rand(limit)
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
