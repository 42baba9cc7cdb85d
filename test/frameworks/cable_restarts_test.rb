# frozen_string_literal: true

# Pages with cables while workers are replaced: each comes back to the new code and hears on, and no
# broadcast is missing while it is there. A sample, run by `rake test:frameworks`; GYRE_CABLES and
# GYRE_RESTARTS set how many, and the figures are printed then.

require "test_helper"
require_relative "cables"

class CableRestartsTest < Minitest::Test
  include GyreTest::Cables

  CABLES = Integer(ENV.fetch("GYRE_CABLES", "20"))
  RESTARTS = Integer(ENV.fetch("GYRE_RESTARTS", "2"))
  # Seconds between two broadcasts: each is much work for one test with thousands of pages.
  PAUSE_S = [CABLES / 4000.0, 0.02].max
  DONE = /^Rolling restart: all workers run the new code$/

  APP = BEGINNING + <<~'RUBY'
    class NewsChannel < ApplicationCable::Channel
      def subscribed
        stream_from("news")
        transmit({ worker: Process.pid })
      end
    end
    class PagesController < ActionController::Base
      def publish = ActionCable.server.broadcast("news", { number: params[:number].to_i }).then { render(plain: Process.pid) }
    end
    ActionCable.server.config.cable = { "adapter" => "gyre" }
    CableApp.routes.append { get "publish", to: "pages#publish" }
    CableApp.initialize!
    run CableApp
  RUBY

  # A page that connects again whenever its cable has ended.
  class Page
    # What one cable heard, and which number was the first to be published after its confirmation. A
    # broadcast may come before the channel's own first message, which names the worker.
    Session = Struct.new(:numbers, :worker, :first)
    attr_reader :worker, :failures, :sessions, :away

    # `publishers`: the worker that published each number.
    def initialize(url, publishers)
      @url = "#{url.sub("http", "ws")}/cable"
      @publishers = publishers
      @failures = []
      @sessions = []
      @away = []
    end

    def live = (visit until @leaves)

    def leave
      @leaves = true
      @socket&.close
    end

    # Returns the last number that its present cable heard.
    def heard = @worker ? @sessions.last.numbers.max || 0 : 0

    # Returns what a cable should have heard: it heard a later number of the same worker.
    def missing
      @sessions.select(&:first).flat_map do |session|
        session.numbers.group_by { |number| @publishers[number] }.filter_map do |publisher, heard|
          missed = (session.first..heard.max).select { |number| @publishers[number] == publisher } - heard
          "#{missed} of #{publisher} at #{session.worker}, which heard #{heard}, from #{session.first} on" if missed.any?
        end
      end
    end

    private

    def visit
      Gyre::WebSocket.connect(@url, protocols: %w[actioncable-v1-json], timeout_s: 60) do |socket|
        (@socket = socket).each { |text| take(JSON.parse(text, symbolize_names: true)) }
      end
    rescue Gyre::HTTP::Client::Error, Gyre::WebSocket::ClosedError => error
      @failures << "#{error.class}: #{error.message}"
      sleep(0.1)
    ensure
      @worker = nil
      @left_s ||= now_s
    end

    def take(message)
      case message
      in { type: "welcome" }
        @sessions << Session.new([])
        @socket.write(JSON.generate(command: "subscribe", identifier: '{"channel":"NewsChannel"}'))
      in { message: { worker: worker } } then @worker = @sessions.last.worker = worker
      in { type: "confirm_subscription" }
        @sessions.last.first = @publishers.size + 2 # the next one may be on its way
        @away << (now_s - @left_s) if @left_s
        @left_s = nil
      in { message: { number: number } } then @sessions.last.numbers << number
      else nil # pings
      end
    end

    def now_s = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def self.time_limit_s = 120 + (RESTARTS * CABLES / 20)

  def test_pages_come_back_after_each_restart_and_miss_nothing_while_they_are_there
    Process.setrlimit(:NOFILE, [2 * CABLES, Process.getrlimit(:NOFILE).first].max)
    serving("-w", "2") do |url, program|
      @publishers = {}
      Gyre.run do |task|
        pages = Array.new(CABLES) { Page.new(url, @publishers) }
        pages.each { |page| task.async { page.live } }
        publisher = task.async { publish(url) }
        come_back(pages, [])
        RESTARTS.times { |number| restart(program, pages, number + 1) }
        publisher.stop
        pages.each(&:leave)
        assert_empty pages.flat_map(&:failures).tally
        assert_empty pages.flat_map(&:missing).tally
        assert(pages.all? { |page| page.sessions.size > RESTARTS })
      end
    end
  end

  private

  def publish(url)
    loop do
      number = @publishers.size + 1
      # A response that is lost fails the test; Net::HTTP would repeat the request.
      http = Net::HTTP.new("127.0.0.1", URI(url).port).tap { |client| client.max_retries = 0 }
      @publishers[number] = Integer(http.get("/publish?number=#{number}").body)
      sleep(PAUSE_S)
    end
  end

  def restart(program, pages, number)
    old = pages.map(&:worker).uniq
    published = @publishers.size
    before_s = monotonic_s
    program.signal(:USR1)
    eventually(within_s: 120, what: "restart #{number}") { program.text(:out).scan(DONE).size == number }
    restarted_s = monotonic_s
    come_back(pages, old)
    return unless ENV["GYRE_CABLES"]

    away = pages.flat_map(&:away).sort
    pages.each { |page| page.away.clear }
    puts format("restart %d: workers replaced after %.1f s, all pages back after %.1f s; a page was away for %.2f s (median), %.2f s (longest), " \
                "%d times; %d broadcasts meanwhile", number, restarted_s - before_s, monotonic_s - before_s, away[away.size / 2] || 0,
      away.last || 0, away.size, @publishers.size - published)
  end

  # Waits until each page is at a new worker and has heard a broadcast that came after that.
  def come_back(pages, old)
    eventually(within_s: 120, what: "all pages") { pages.all? { |page| page.worker && !old.include?(page.worker) } }
    mark = @publishers.size + 2
    eventually(within_s: 60, what: "the next broadcast") { pages.all? { |page| page.heard >= mark } }
  end
end
