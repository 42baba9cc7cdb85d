# frozen_string_literal: true

# A client of an ACME authority (RFC 8555): account, orders, times of renewal (ARI, RFC 9773). Made
# by Keeper for each look at a certificate. Publishes nothing itself, see Keeper#challenge.

require "gyre/http/client"
require "gyre/web/acme/key"
require "time"

module Gyre
  module Web
    module ACME
      # The authority refused a request or an order.
      class Refused < Error
        attr_reader :type, :retry_after_s # such as "rateLimited", 3600; or nil

        # `problem`: a Hash (RFC 9457), or a text.
        def initialize(problem, retry_after_s = nil)
          problem = { "detail" => problem } unless problem.is_a?(Hash)
          @type = problem["type"].to_s[/[^:]+\z/]
          @retry_after_s = retry_after_s
          super([@type, problem["detail"]].compact.join(": ").gsub(/[^[:print:]]/, "?")[0, 500])
        end
      end

      class Authority
        NONCES_LIMIT = 10
        POLLS_LIMIT = 40
        # Seconds between two polls, unless the authority names a time: first, at most.
        POLL_S = (0.25..10)
        # Least difference of clocks that counts, in seconds.
        SKEW_S = 60
        DAY_S = 86_400
        # Seconds until the next question for a time of renewal, unless the authority names a time.
        AGAIN_S = 6 * 3600
        LIMITS = { timeout_s: 60, redirects_limit: 0, body_bytes_limit: 1 << 20 }.freeze

        # Returns a certificate's id for ARI: its authority's key id and its serial number.
        def self.id(certificate)
          serial = OpenSSL::ASN1::Integer.new(certificate.serial).to_der.byteslice(2..) # with a 0 before a high bit
          [certificate.authority_key_identifier.to_s, serial].map { |part| Key.base64(part) }.join(".")
        end

        # `challenge`: its type, and a lambda that is called with a name, the key authorization (RFC
        # 8555, section 8.1), and true before the challenge, false after it. `binding`: ID:SECRET of
        # an account elsewhere, or nil. `tls`: see HTTP::Client.
        def initialize(directory, key, challenge:, binding: nil, tls: nil)
          @url = directory
          @key = key
          @challenge = challenge
          @binding = binding
          @http = HTTP::Client.new(tls: tls, **LIMITS)
        end

        # Returns how many seconds the authority's clock is ahead of this machine's; 0 for a few.
        def skew_s
          skew_s = found["date"] ? Time.httpdate(found["date"]) - @found_at : 0
          skew_s.abs < SKEW_S ? 0 : skew_s
        end

        # Returns the time of renewal that the authority suggests, in Unix seconds by its clock,
        # drawn from its window, and how many seconds later to ask again. Returns nil if there is
        # none.
        def suggestion(certificate)
          base = directory["renewalInfo"] or return
          response = check(@http.get("#{base.chomp("/")}/#{Authority.id(certificate)}"))
          from, to = response.json["suggestedWindow"].values_at("start", "end").map { |text| Time.iso8601(text).to_f }
          raise Refused, "its window is empty" unless to > from # RFC 9773, section 4.2

          [from + (rand * (to - from)), (response.retry_after_s || AGAIN_S).clamp(60, DAY_S)]
        end

        # Orders a certificate for a name, in place of the `former` one or nil. Returns PEM: the
        # certificate, its chain, and its key, which is new.
        def order(name, profile: nil, former: nil)
          url, order = create(name, profile, (Authority.id(former) if former && directory["renewalInfo"]))
          order["authorizations"].each { |each| authorize(each, name.delete_prefix("*.")) }
          order = poll(url) { |now| now["status"] != "pending" }
          key = OpenSSL::PKey::EC.generate(Key::CURVE)
          post(order["finalize"], { csr: Key.base64(request(name, key).to_der) }) if order["status"] == "ready"
          order = poll(url) { |now| !%w[ready processing].include?(now["status"]) }
          raise Refused, order["error"] || "the order is #{order["status"]}" unless order["status"] == "valid"

          chain = post(order["certificate"]).body
          return "#{chain}\n#{key.to_pem}" if OpenSSL::X509::Certificate.new(chain).check_private_key(key)

          raise Refused, "the certificate is for another key"
        end

        def close = @http.close

        private

        def directory = @directory ||= found.json

        def found = @found ||= check(@http.get(@url)).tap { @found_at = Time.now }

        def check(response)
          return response if response.ok?

          problem = response["content-type"].to_s.include?("json") ? response.json : "#{response.status} #{response.text}"
          raise Refused.new(problem, response.retry_after_s)
        end

        # Sends signed JSON. Repeats it with the nonce that comes with a refusal.
        def post(url, payload = nil, kid: self.kid)
          tries = 0
          begin
            nonce = @nonce || check(@http.head(directory["newNonce"]))["replay-nonce"]
            body = JSON.generate(@key.sign(payload, url: url, nonce: nonce, kid: kid))
            response = @http.post(url, body, headers: { "content-type" => "application/jose+json" })
            @nonce = response["replay-nonce"]
            check(response)
          rescue Refused => error
            error.type == "badNonce" && (tries += 1) < NONCES_LIMIT ? retry : raise
          end
        end

        # Asks until the block is true; returns the answer.
        def poll(url)
          POLLS_LIMIT.times do |count|
            response = post(url)
            answer = response.json
            return answer if yield answer

            sleep((response.retry_after_s || (POLL_S.begin * (2**count))).clamp(POLL_S))
          end
          raise Refused, "the authority does not get ready: #{url}"
        end

        # Returns the URL of this key's account. Makes an account only if there is none, because the
        # secret of a binding may be good for one account.
        def kid
          url = directory["newAccount"]
          @kid ||= post(url, { onlyReturnExisting: true }, kid: nil)["location"]
        rescue Refused => error
          raise unless error.type == "accountDoesNotExist"

          payload = { termsOfServiceAgreed: true, externalAccountBinding: @binding && @key.bind(@binding, url) }.compact
          @kid = post(url, payload, kid: nil)["location"]
        end

        # Orders again without `replaces` if that is refused, because a certificate can be replaced
        # once only.
        def create(name, profile, replaces)
          order = { identifiers: [{ type: "dns", value: name }], profile: profile, replaces: replaces }.compact
          response = post(directory["newOrder"], order)
          [response["location"], response.json]
        rescue Refused => error
          raise if replaces.nil? || error.type == "rateLimited"

          create(name, profile, nil)
        end

        def authorize(url, name)
          authorization = post(url).json
          return if authorization["status"] == "valid" # the authority uses a former one again

          type, prepare = @challenge
          challenge = authorization["challenges"].find { |each| each["type"] == type } or raise Refused, "the authority offers no #{type}"
          proof = "#{challenge["token"]}.#{@key.thumbprint}"
          prepare.call(name, proof, true)
          post(challenge["url"], {})
          result = poll(url) { |now| now["status"] != "pending" }
          return if result["status"] == "valid"

          raise Refused, result["challenges"].filter_map { |each| each["error"] }.first || "the challenge is #{result["status"]}"
        ensure
          prepare.call(name, proof, false) if proof
        end

        def request(name, key)
          request = OpenSSL::X509::Request.new
          request.public_key = key
          extension = OpenSSL::X509::ExtensionFactory.new.create_extension("subjectAltName", "DNS:#{name}")
          request.add_attribute(OpenSSL::X509::Attribute.new("extReq", OpenSSL::ASN1::Set([OpenSSL::ASN1::Sequence([extension])])))
          request.sign(key, OpenSSL::Digest.new("SHA256"))
        end
      end
    end
  end
end
