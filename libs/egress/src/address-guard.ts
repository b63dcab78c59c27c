import { isIP } from 'node:net';
import { ToolError } from '@toolfleet/contracts';
import ipaddr from 'ipaddr.js';
import { refusal } from './errors.js';

type Address = ReturnType<typeof ipaddr.parse>;
type Range = readonly [Address, number];

/**
 * Denied although public or shared by range: Azure wireserver, Oracle metadata, Alibaba metadata.
 * 2000::/3 is the whole of global unicast IPv6 (RFC 4291 2.4); anything else that a range table does not know is refused.
 */
const ALWAYS_DENIED = ['168.63.129.16/32', '192.0.0.192/32', '100.100.100.200/32'];
const GLOBAL_UNICAST_V6 = ipaddr.parseCIDR('2000::/3');

/** Decides which addresses may be dialled: public unicast, outside the cluster's own ranges. */
export class AddressGuard {
  private readonly denied: readonly Range[];

  /** @param deniedCidrs pod, service and node ranges of the cluster. @throws ToolError REQUEST_INVALID on a bad range */
  constructor(deniedCidrs: readonly string[] = []) {
    this.denied = [...ALWAYS_DENIED, ...deniedCidrs].map((cidr) => {
      // net's idea of an address: the library reads `10/8` as 0.0.0.10/8.
      if (isIP(cidr.split('/')[0] ?? '') === 0 || !ipaddr.isValidCIDR(cidr)) {
        throw new ToolError('REQUEST_INVALID', { message: `Not an address range: "${cidr}"` });
      }
      return ipaddr.parseCIDR(cidr);
    });
  }

  /** True for a public unicast address that no rule denies. `::ffff:a.b.c.d` is judged as a.b.c.d. */
  isPublic(address: string): boolean {
    // net's idea of an address, not the library's: that one also reads short and octal forms.
    if (isIP(address) === 0 || address.includes('%')) return false;
    const parsed = ipaddr.process(address);
    if (parsed.range() !== 'unicast') return false;
    if (parsed.kind() === 'ipv6' && !parsed.match(GLOBAL_UNICAST_V6)) return false;
    return !this.denied.some(([range, bits]) => range.kind() === parsed.kind() && parsed.match(range, bits));
  }

  /** @throws ToolError EGRESS_REFUSED (layer `connect`) unless every address is public; one bad answer refuses all */
  assertAllPublic(host: string, addresses: readonly string[]): void {
    if (!addresses.every((address) => this.isPublic(address))) throw refusal('connect', 'address', host);
  }
}
