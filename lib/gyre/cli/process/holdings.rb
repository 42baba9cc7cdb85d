# frozen_string_literal: true

# Keeps a server's listening sockets and pidfile, and a supervisor's control socket and state file.
# Opens them for the configured user. Used by `gyre serve` and `gyre dns`, which load ControlServer
# if there are metrics.

require "gyre/cli/process/pidfile"
require "gyre/cli/process/privileges"
require "gyre/cli/state_file"
require "gyre/web/access_log/log_file"
require "gyre/cluster/sockets"

module Gyre
  module CLI
    class Holdings
      # `commanded`: whether there is a control socket; `sockets`: open the endpoints, instead of
      # Cluster::Sockets.
      def initialize(settings, endpoints:, log:, handover: nil, commanded: true, sockets: nil)
        @settings, @endpoints, @log, @handover, @commanded = settings, endpoints, log, handover, commanded
        @activated = sockets ? [] : Cluster::Sockets.activated
        @privileges = Privileges.new(*settings.values_at(:user, :group))
        @sockets, @control, @metrics = [sockets, nil, nil].map { |given| given || Cluster::Sockets.new(making: @privileges.method(:making)) }
      end

      # True if `open` gives up root's rights.
      def drops_rights? = @privileges.wanted?

      # Opens sockets and files, then gives up root's rights.
      def open
        open_sockets
        write_files
        make_folder(@settings[:acme_folder]) if @settings[:acme_folder]
        @privileges.drop
        # Creates the log as the configured user, because root would follow a link.
        Web::LogFile.new(@settings[:access_log]).close if @settings[:access_log]
      end

      # Makes a file for the user; see Privileges.
      def making(...) = @privileges.making(...)

      def listeners = @sockets.listeners

      def metrics_urls = @metrics.listeners.map(&:url)

      def tls? = listeners.any? { |listener| listener.endpoint.tls }

      # Sockets by name, for the next program and the mold.
      def sets = { sockets: @sockets, control: @control, metrics: @metrics }

      def files = { pidfile: @pidfile&.path, state: @state&.path }

      def close
        sets.each_value { |sockets| sockets.listeners.each(&:close) }
        @pidfile&.remove
        @state&.remove
      end

      private

      def open_sockets
        inherited = @handover ? left(:sockets) : @activated
        endpoints = @settings.slice(:bind, :host, :port).any? || inherited.none?(&:given) ? @endpoints : []
        others = @sockets.open(endpoints, inherited: inherited)
        others.each { |socket| socket.given ? @sockets.adopt(socket) : socket.close }
        open_control if @commanded
        open_beside(@metrics, Array(@settings[:metrics]).map { |address| Web::ControlServer.endpoint(address) }, :metrics)
      end

      def open_beside(sockets, endpoints, name) = sockets.open(endpoints, inherited: @handover ? left(name) : []).each(&:close)

      def left(name) = Cluster::Sockets.from(@handover["sets"].fetch(name.to_s, []), owned: !@handover.rehearsal?)

      # Opens the control socket beside the state file; with --user or --group, only for --state.
      def open_control
        @state = @settings[:state] ? StateFile.new(@settings[:state]) : usual_state
        open_beside(@control, [@state&.endpoint].compact, :control)
      rescue StartError, SystemCallError => error
        raise if @settings[:state]

        @log.info("no #{StateFile::PATH}, so gyre ctl and gyre top need --state FILE: #{error.message}")
        @state = nil
      end

      def usual_state = (StateFile.usual if @settings.slice(:user, :group).empty?)

      def write_files
        @pidfile = Pidfile.new(@settings[:pidfile]) if @settings[:pidfile]
        @privileges.making(@pidfile.path) { @pidfile.write } if @pidfile && !kept?(:pidfile)
        @privileges.making(@state.path) { @state.write(pid: Process.pid, urls: listeners.map(&:url)) } if @state && !kept?(:state)
        remove_former_files if @handover && !@handover.rehearsal?
      end

      # Makes the folder, and gives it to the user of --user.
      def make_folder(path)
        return if File.directory?(path)

        make_folder(File.dirname(path))
        @privileges.making(path) { Dir.mkdir(path, 0o700) }
      rescue SystemCallError => error
        raise StartError, "acme_folder: #{error.message.sub(/ @ \w+/, "")}. Name another folder with --acme-folder"
      end

      # True if the former program wrote the file at the same path.
      def kept?(name) = @handover && @handover["files"][name.to_s] == files[name]

      def remove_former_files
        { pidfile: Pidfile, state: StateFile }.each do |name, kind|
          former = @handover["files"][name.to_s]
          kind.new(former).remove if former && !kept?(name)
        end
      end
    end
  end
end
