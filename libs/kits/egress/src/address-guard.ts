import { isIP } from 'node:net';
import { CodedError } from '@toolfleet/base';
import ipaddr from 'ipaddr.js';
import { refusal } from './errors.js';

type Address = ReturnType<typeof ipaddr.parse>;
type Range = readonly [Address, number];

/** Metadata services at addresses that are public or shared by their range: Azure wireserver, Oracle, Alibaba. */
const ALWAYS_DENIED = ['168.63.129.16/32', '192.0.0.192/32', '100.100.100.200/32'];
/** All global unicast IPv6 addresses (RFC 4291, 2.4). Everything outside is refused, even where ipaddr.js knows no range. */
const GLOBAL_UNICAST_V6 = ipaddr.parseCIDR('2000::/3');

/**
 * Refuses addresses that a server-side request forgery (SSRF) would aim at: loopback, private, link-local, carrier-grade
 * NAT, multicast, reserved and metadata addresses, IPv6 forms that embed an IPv4 address, and the cluster's own ranges.
 * Only public unicast addresses pass. The connector asks for every resolved address and again right before it dials.
 */
export class AddressGuard {
  private readonly denied: readonly Range[];

  /**
   * @param deniedCidrs pod, service and node ranges of the cluster, such as `10.0.0.0/8`
   * @throws CodedError REQUEST_INVALID for a malformed range
   */
  constructor(deniedCidrs: readonly string[] = []) {
    this.denied = [...ALWAYS_DENIED, ...deniedCidrs].map((cidr) => {
      // isIP is stricter than ipaddr.js: it reads `10/8` as 0.0.0.10/8.
      if (isIP(cidr.split('/')[0] ?? '') === 0 || !ipaddr.isValidCIDR(cidr)) {
        throw new CodedError('REQUEST_INVALID', {
          message: `Invalid address range "${cidr}": use CIDR notation such as 10.0.0.0/8`,
        });
      }
      return ipaddr.parseCIDR(cidr);
    });
  }

  /** True for a public unicast address that no range denies. `::ffff:a.b.c.d` is treated as a.b.c.d. */
  isPublic(address: string): boolean {
    // isIP is stricter than ipaddr.js: it also accepts short and octal forms.
    if (isIP(address) === 0 || address.includes('%')) return false;
    const parsed = ipaddr.process(address);
    if (parsed.range() !== 'unicast') return false;
    if (parsed.kind() === 'ipv6' && !parsed.match(GLOBAL_UNICAST_V6)) return false;
    return !this.denied.some(([range, bits]) => range.kind() === parsed.kind() && parsed.match(range, bits));
  }

  /** @throws CodedError EGRESS_REFUSED (layer `connect`) if any of the addresses is not public */
  assertAllPublic(host: string, addresses: readonly string[]): void {
    if (!addresses.every((address) => this.isPublic(address))) throw refusal('connect', 'address', host);
  }
}
