import { Controller, Req, Res } from '@nestjs/common';
import { readSessionCookie, SESSION_COOKIE, sessionDigest } from '@toolfleet/access';
import type { SignOut, SignOutReply } from '@toolfleet/contracts/sign-in';
import type { SignInSettings } from '@toolfleet/fleet-file';
import type { NatsClient } from '@toolfleet/transport';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { publicBase, type PublicAddress } from '../server/public-origin.js';
import { Serves } from '../server/routes.js';

/** How people sign in to this fleet. */
export class SignIn {
  constructor(
    private readonly nats: Pick<NatsClient, 'ask'>,
    private readonly section: SignInSettings,
    private readonly address: PublicAddress,
  ) {}

  /** The data with which a page offers it. */
  get offer(): { available: boolean; name: string | null } {
    const { issuer, name } = this.section;
    return { available: issuer !== undefined, name: issuer === undefined ? null : (name ?? new URL(issuer).hostname) };
  }

  /** Ends the session of a request. @returns the page on which the browser ends that at the provider, if it has one */
  async signOut({ raw }: FastifyRequest): Promise<SignOutReply> {
    const secret = readSessionCookie(raw.rawHeaders);
    const base = publicBase(raw, this.address);
    if (secret === undefined || base === undefined || this.section.issuer === undefined) return {};
    const message: SignOut = { digest: sessionDigest(secret), origin: new URL(base).origin };
    return this.nats.ask('identity.sign_out', message);
  }
}

/** The sign-in that this fleet offers, and the end of a session. */
@Controller()
export class SignInController {
  constructor(private readonly signIn: SignIn) {}

  @Serves('GET /api/v1/sign-in')
  offer() {
    return this.signIn.offer;
  }

  @Serves('POST /api/v1/sign-out')
  async signOut(@Req() request: FastifyRequest, @Res({ passthrough: true }) reply: FastifyReply) {
    const { url = null, cookie } = await this.signIn.signOut(request);
    const ended = `${SESSION_COOKIE}=; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=0`;
    void reply.header('Set-Cookie', cookie === undefined ? ended : [ended, cookie]);
    return { url };
  }
}
