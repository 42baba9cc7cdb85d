# frozen_string_literal: true

# An application of Rails as many are, for differential_test.rb, which serves it by Puma and by Gyre:
# a session, forms and uploads, streams (Live and templates), GraphQL, transactions, a job, Action
# Cable. Its middleware sets the tenant and the role of the database, as gems for tenants do. Runs on
# Rails 7.1 as well.

require "logger"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "active_job/railtie"
require "action_cable/engine"
require "graphql"
require "gyre" if ENV["SERVER"] == "gyre"

FOLDER = ENV.fetch("FOLDER")
ENV["DATABASE_URL"] = "sqlite3:#{FOLDER}/test.sqlite3?pool=5&timeout=10000"

class Current < ActiveSupport::CurrentAttributes
  attribute :tenant, :user
end

# Sets what a request's code is to see wherever it runs.
class Elevator
  def initialize(app) = @app = app

  def call(env)
    Current.tenant = env["HTTP_X_TENANT"]
    locale = env["HTTP_X_LOCALE"] || "en"
    ActiveRecord::Base.connected_to(role: env["HTTP_X_ROLE"]&.to_sym || :writing) { I18n.with_locale(locale) { @app.call(env) } }
  end
end

class DifferentialApp < Rails::Application
  config.load_defaults 7.1
  config.root = FOLDER
  config.eager_load = true
  config.secret_key_base = "0" * 64
  config.hosts.clear
  config.logger = Logger.new("#{FOLDER}/log.txt") # a pipe would be full
  config.log_level = :error
  config.consider_all_requests_local = false
  config.action_dispatch.show_exceptions = :all
  config.action_controller.allow_forgery_protection = false
  config.i18n.available_locales = %i[en de]
  config.active_job.queue_adapter = :inline
  config.active_record.maintain_test_schema = false
  config.middleware.use Elevator
end

class Entry < ActiveRecord::Base; end

# What code sees of its request. Before Ruby 3.2 the locale is lost in inner fibers under Puma.
module Seen
  def self.state = [Current.tenant, Current.user, ActiveRecord::Base.current_role, (I18n.locale if RUBY_VERSION >= "3.2"), Time.zone&.name]
end

class StateSource < GraphQL::Dataloader::Source
  def fetch(keys) = keys.map { Seen.state.inspect }
end

class CountSource < GraphQL::Dataloader::Source
  def fetch(keys) = keys.map { Entry.count }
end

class Query < GraphQL::Schema::Object
  field :direct, String
  field :loaded, String
  field :entries, Integer
  def direct = Seen.state.inspect
  def loaded = dataloader.with(StateSource).load(1)
  def entries = dataloader.with(CountSource).load(1)
end

class Schema < GraphQL::Schema
  query Query
  use GraphQL::Dataloader
end

class StateJob < ActiveJob::Base
  def perform(out) = File.write(out, Seen.state.inspect)
end

class ApplicationController < ActionController::Base
  before_action { Current.user = session[:user] }
  around_action { |_, action| Time.use_zone(request.headers["X-Zone"] || "UTC", &action) }
  rescue_from(ActionController::ParameterMissing) { |error| render(plain: error.message.lines.first, status: :bad_request) }
end

class PagesController < ApplicationController
  def login
    session[:user] = params.require(:user)
    cookies.encrypted[:last] = params[:user]
    redirect_to("/me", status: :see_other)
  end

  def logout = reset_session || redirect_to("/me")
  def me = render(plain: [Seen.state, session[:user], cookies.encrypted[:last]].inspect)
  def form = render(json: { params: request.request_parameters, query: request.query_parameters, zone: Time.zone.name })
  def json = render(json: params.to_unsafe_h.except(:controller, :action))
  def raw = render(plain: "#{request.raw_post.bytesize} #{request.content_type}")
  def put = render(plain: "#{request.method} #{request.raw_post}")

  def upload
    file = params.require(:file)
    render(json: { name: file.original_filename, type: file.content_type, bytes: file.size, sum: file.read.sum, text: params[:text] })
  end

  def enumerator = render(plain: Enumerator.new { |out| sleep(0.001) && out << Seen.state.inspect }.next)
  def nested = render(plain: Enumerator.new { |out| out << Enumerator.new { |deep| deep << Seen.state.inspect }.peek }.next)
  def zip = render(plain: [1, 2].zip(Enumerator.new { |out| 2.times { out << Seen.state.inspect } }).inspect)
  def graphql = render(json: Schema.execute(params[:query] || "{ direct loaded }").to_h)
  def streamed = render(inline: "<p><%= Seen.state.inspect %></p>", stream: true, layout: false)

  # Its own row counts in inner fibers; other requests' rows do not, for all roll back.
  def inside
    seen = nil
    Entry.transaction do
      Entry.create!(number: 1)
      seen = [Entry.count, Enumerator.new { |out| out << Entry.count }.next, Schema.execute("{ entries }").to_h.dig("data", "entries")]
      raise ActiveRecord::Rollback
    end
    render(plain: seen.inspect)
  end

  def queries
    number, seen = rand(1 << 40), []
    count = ->(*, payload) { seen << !payload[:cached] if payload[:sql].include?(number.to_s) }
    ActiveSupport::Notifications.subscribed(count, "sql.active_record") do
      ActiveRecord::Base.cache { 2.times { Entry.where("number = #{number}").to_a } }
    end
    render(plain: seen.inspect)
  end

  def leased
    Enumerator.new { |out| out << ActiveRecord::Base.connection.select_value("SELECT 1") }.next
    render(plain: "leased #{ActiveRecord::Base.connection_pool.stat[:busy].between?(1, 5)}")
  end

  def job
    out = "#{FOLDER}/job#{rand(1 << 40)}"
    StateJob.perform_later(out)
    render(plain: File.read(out))
  end

  def cached
    render(plain: "cached") if stale?(etag: params[:version] || "1", last_modified: Time.utc(2026))
  end

  def data = send_data("a" * 100_000, filename: "a.txt", type: "text/plain")
  def file = send_file(__FILE__, type: "text/plain", disposition: "inline")
  def large = render(plain: "häh" * 100_000)
  def empty = head(:no_content)
  def headers_too = response.set_header("X-Several", "a").then { render(plain: request.headers["X-Sent"].to_s) }
  def broken = raise("broken on purpose")
  def throw_out = head(:payment_required)

  def formats
    respond_to do |format|
      format.html { render(html: "<b>html</b>".html_safe) }
      format.json { render(json: { json: true }) }
      format.any { render(plain: request.format.to_s) }
    end
  end
end

class StreamsController < ApplicationController
  include ActionController::Live

  def show
    response.headers["content-type"] = "text/plain"
    response.stream.write("#{Seen.state.inspect}\n")
    response.stream.write(Enumerator.new { |out| out << Seen.state.inspect }.next)
  ensure
    response.stream.close
  end

  def events
    response.headers["content-type"] = "text/event-stream"
    events = ActionController::Live::SSE.new(response.stream, event: "state")
    2.times { |number| events.write({ number: number, tenant: Current.tenant }) }
  ensure
    events&.close
  end

  def export = send_stream(filename: "a.csv") { |stream| 3.times { |number| stream.write("#{number},#{Current.tenant}\n") } }
end

module ApplicationCable
  class Connection < ActionCable::Connection::Base
    identified_by :user
    def connect = self.user = request.params[:user] || reject_unauthorized_connection
  end
  Channel = Class.new(ActionCable::Channel::Base)
end

class RoomChannel < ApplicationCable::Channel
  def subscribed = params[:room] ? stream_from("room #{params[:room]}") : reject
  def say(data) = ActionCable.server.broadcast("room #{params[:room]}", { text: data["text"], from: user })
  def identify = transmit({ user: user, seen: Current.user.inspect }).tap { Current.user = user }
end

ActionCable.server.config.cable = { "adapter" => "async" }
ActionCable.server.config.disable_request_forgery_protection = true
DifferentialApp.routes.append do
  actions = %i[me logout enumerator nested zip graphql streamed queries leased job cached data file large empty headers_too broken throw_out formats]
  actions.each { |name| get name.to_s, to: "pages##{name}" }
  %i[login form json raw upload graphql inside].each { |name| post name.to_s, to: "pages##{name}" }
  %i[put patch delete].each { |verb| public_send(verb, "put", to: "pages#put") }
  get "stream", to: "streams#show"
  get "events", to: "streams#events"
  get "export", to: "streams#export"
  mount ActionCable.server => "/cable"
end
DifferentialApp.initialize!
ActiveJob::Arguments.name # on Ruby 3.1 a fiber does not wait for what another one autoloads
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:entries, if_not_exists: true) { |table| table.integer :number } }

run DifferentialApp
