/** `@toolfleet/egress/rules`: rules for configuration, without the client. */
import { AddressGuard } from './address-guard.js';
import { Allowlist, endpointOrigin } from './url-guard.js';

export { adviseRefusals } from './errors.js';
export { endpointOrigin };

/** @throws CodedError REQUEST_INVALID unless `entry` is `host`, `*.host`, `host:port`, `http://host` or `*` */
export function checkAllowEntry(entry: string): void {
  new Allowlist([entry], true);
}

/** @throws CodedError REQUEST_INVALID unless `origin` is `scheme://host[:port]` */
export function checkEndpoint(origin: string): void {
  endpointOrigin(origin);
}

/** @throws CodedError REQUEST_INVALID unless `range` is an address range such as `10.0.0.0/8` */
export function checkAddressRange(range: string): void {
  new AddressGuard([range]);
}
