/** The table of rights finds each fault in recorded texts of containers; `npm run test:containers` looks at real ones. */
import { describe, expect, it } from 'vitest';
import { readRights, wrongRights } from './containers/locked-down.js';

/** Of the gateway in docker-compose.yml, on podman 4.3, shortened. */
const STATUS = `Name:\tcatatonit
Uid:\t10001\t10001\t10001\t10001
CapInh:\t0000000000000000
CapEff:\t0000000000000000
NoNewPrivs:\t1
`;
const MOUNTS = `overlay / overlay ro,relatime,lowerdir=/var/lib/containers/l/ABC 0 0
tmpfs /dev tmpfs rw,nosuid,noexec,size=65536k,mode=755 0 0
tmpfs /tmp tmpfs rw,nosuid,nodev,relatime 0 0
proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0
mqueue /dev/mqueue mqueue rw,nosuid,nodev,noexec,relatime 0 0
/dev/vda /etc/hosts ext4 rw,relatime 0 0
/dev/vda /etc/toolfleet/fleet.yaml ext4 ro,relatime 0 0
`;
const VOLUME = '/dev/vda /data ext4 rw,relatime 0 0\n';

const wrong = (service: string, status: string, mounts: string) => wrongRights(service, readRights(status + mounts));

describe('rights of containers', () => {
  it('are right as declared', () => {
    expect(wrong('gateway', STATUS, MOUNTS)).toEqual([]);
    expect(wrong('redis', STATUS.replaceAll('10001', '999'), MOUNTS + VOLUME)).toEqual([]);
  });

  it.each([
    ['uid 0, expected 10001', STATUS.replaceAll('10001', '0'), MOUNTS],
    [
      'capabilities 00000000a80425fb, expected 0000000000000000',
      STATUS.replace(/^CapEff.*/m, 'CapEff:\t00000000a80425fb'),
      MOUNTS,
    ],
    ['noNewPrivileges false, expected true', STATUS.replace('NoNewPrivs:\t1', 'NoNewPrivs:\t0'), MOUNTS],
    ['isRootReadOnly false, expected true', STATUS, MOUNTS.replace('overlay ro,', 'overlay rw,')],
    ['writable /data, expected ', STATUS, MOUNTS + VOLUME],
  ])('are wrong with %s', (finding, status, mounts) => {
    expect(wrong('gateway', status, mounts)).toEqual([`gateway: ${finding}`]);
  });

  it('are wrong without a volume that has to be written', () => {
    const finding = 'redis: writable , expected /data';
    expect(wrong('redis', STATUS.replaceAll('10001', '999'), MOUNTS)).toEqual([finding]);
  });
});
