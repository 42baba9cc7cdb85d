# frozen_string_literal: true

# The whole app: maps paths to parts. Run by config.ru. A part is an object with `call(env)`, in its
# own file beside this one, and uses none of the others. Each request is logged; parts log to Rack's
# own "rack.logger".

require_relative "../../live/board"
require_relative "../../live/dashboard"
require_relative "cache"
require_relative "cache_panel"
require_relative "comparison"
require_relative "dns_panel"
require_relative "figures"
require_relative "hold"
require_relative "idle"
require_relative "log_panel"
require_relative "logbook"
require_relative "pages"
require_relative "poem"
require_relative "readings"
require_relative "shops"
require_relative "talk"
require_relative "upload"
require_relative "waiting"

module Showcase
  # Sends each request to its part.
  class App
    def initialize
      @figures = Figures.new
      @logbook = Logbook.new
      pages = Pages.new
      @routes = {
        "/figures" => { "GET" => @figures },
        "/poem" => { "GET" => Poem.new },
        "/readings.csv" => { "GET" => Readings.new },
        "/upload" => { "POST" => Upload.new },
        "/comparison" => { "GET" => Comparison.new },
        "/cache" => { "GET" => CachePanel.new(Cache.new) },
        "/dns" => { "GET" => DNSPanel.new },
        "/idle" => { "GET" => Idle.new },
        "/hold" => { "POST" => Hold.new },
        "/board" => { "GET" => Board },
        "/dashboard" => { "GET" => Dashboard }
      }
      waiting = Waiting.new
      ["/waiting", Waiting::PATH].each { |path| @routes[path] = { "GET" => waiting } }
      { "/log" => LogPanel.new(@logbook), "/talk" => Talk.new }.each { |path, part| @routes[path] = { "GET" => part, "POST" => part } }
      SHOPS.each { |shop| @routes[shop.path] = { "GET" => shop } }
      pages.paths.each { |path| @routes[path] = { "GET" => pages } }
      @routes.freeze
    end

    def call(env)
      @figures.count_request
      log = env["rack.logger"] = @logbook.client("web")
      answer = route(env)
      return answer if env["PATH_INFO"] == Waiting::PATH # a thousand lines would hide all others

      log.add(severity(answer.first), "#{env["REQUEST_METHOD"]} #{env["PATH_INFO"]} #{answer.first}")
      answer
    end

    private

    def route(env)
      parts = @routes[env["PATH_INFO"]] or return plain(404, "There is nothing here.")
      method = env["REQUEST_METHOD"]
      method = "GET" if method == "HEAD" # the server leaves the body out
      part = parts[method] or return refuse_method(parts.keys.join(", "))
      part.call(env)
    end

    def severity(status)
      return "info" if status < 400

      status < 500 ? "warn" : "error"
    end

    def refuse_method(allowed)
      plain(405, "This path answers to #{allowed}.", "allow" => allowed)
    end

    def plain(status, text, headers = {})
      [status, { "content-type" => "text/plain; charset=utf-8", **headers }, ["#{text}\n"]]
    end
  end
end
