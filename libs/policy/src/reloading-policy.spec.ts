import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { eventually, FakeClock } from '@toolfleet/testing';
import type { PolicyInput } from './policy-engine.js';
import { readPolicyFolder } from './reloading-policy.js';
import type { PolicyFile } from './rego-policy.js';
import { ReloadingPolicy } from './reloading-policy.js';

const INPUT = {
  tool: 'x',
  user: { id: 'a', tenant: 't', roles: [], via: 'local' },
  arguments: {},
  origin: 'public',
  entry_point: 'http',
} satisfies PolicyInput;
const denying = (message: string): PolicyFile[] => [
  { name: 'tools.rego', text: `package tools\ndeny contains "${message}" if true` },
];

function setUp(first: PolicyFile[]) {
  const clock = new FakeClock();
  const events: string[] = [];
  const source = { files: first, fails: false };
  const policy = new ReloadingPolicy({
    read: async () => {
      if (source.fails) throw new Error('EACCES');
      return source.files;
    },
    clock,
    everyMs: 2_000,
    events: {
      loaded: () => events.push('loaded'),
      refused: (error, kept) => events.push(`refused: ${error.message} (${kept === undefined ? 'nothing' : 'kept'})`),
    },
  });
  return { clock, events, source, policy };
}

describe('policy in force', () => {
  it('changes within two intervals', async () => {
    const { clock, source, policy, events } = setUp(denying('one'));
    await policy.start();
    expect(policy.decide(INPUT)).toEqual({ deny: ['one'], rules: ['tools.rego:2'] });
    source.files = denying('two');
    await clock.run(4_000);
    expect(policy.decide(INPUT)).toEqual({ deny: ['two'], rules: ['tools.rego:2'] });
    await clock.run(20_000);
    expect(events).toEqual(['loaded', 'loaded']);
    policy.stop();
    expect(clock.pending).toBe(0);
  });

  it('stays when a new one is invalid, unreadable or missing, and reports that once', async () => {
    const { clock, source, policy, events } = setUp(denying('one'));
    await policy.start();
    const { hash } = policy;
    source.files = [{ name: 'tools.rego', text: 'package tools\ndeny { }' }];
    await clock.run(10_000);
    expect(policy.decide(INPUT)).toEqual({ deny: ['one'], rules: ['tools.rego:2'] });
    expect(policy.hash).toBe(hash);
    expect(events).toEqual(['loaded', expect.stringMatching(/^refused: tools\.rego:2:6: .* \(kept\)$/)]);
    source.fails = true;
    await clock.run(2_000);
    expect(policy.decide(INPUT)).toEqual({ deny: ['one'], rules: ['tools.rego:2'] });
    const count = events.length;
    source.fails = false;
    source.files = denying('one');
    await clock.run(4_000);
    expect(events.slice(count)).toEqual(['loaded']);
    source.files = denying('two');
    await clock.run(4_000);
    expect(policy.decide(INPUT)).toEqual({ deny: ['two'], rules: ['tools.rego:2'] });
    policy.stop();
  });

  it('never takes a file that is being written, although its first half parses', async () => {
    const { clock, source, policy } = setUp(denying('one'));
    await policy.start();
    const [whole] = denying('two');
    source.files = [{ ...whole!, text: 'package tools\ndeny contains "never" if false' }];
    await clock.run(2_000);
    expect(policy.decide(INPUT)).toEqual({ deny: ['one'], rules: ['tools.rego:2'] });
    source.files = [whole!];
    await clock.run(2_000);
    expect(policy.decide(INPUT)).toEqual({ deny: ['one'], rules: ['tools.rego:2'] });
    await clock.run(2_000);
    expect(policy.decide(INPUT)).toEqual({ deny: ['two'], rules: ['tools.rego:2'] });
    policy.stop();
  });

  it('is unready and denies everything while there never was a good one', async () => {
    const { clock, source, policy } = setUp([{ name: 'tools.rego', text: 'nonsense' }]);
    await policy.start();
    expect(policy.ready).toBe(false);
    expect(policy.decide(INPUT)).toEqual({ deny: ['no policy is loaded'] });
    source.files = denying('one');
    await clock.run(4_000);
    expect(policy.ready).toBe(true);
    policy.stop();
  });

  it('follows a folder whose files are swapped by a symlink, as Kubernetes does', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'toolfleet-policy-'));
    const version = async (name: string, message: string) => {
      await writeFile(join(folder, `${name}.txt`), denying(message)[0]!.text);
      await symlink(`${name}.txt`, join(folder, 'next'));
      await rename(join(folder, 'next'), join(folder, 'tools.rego'));
    };
    await version('v1', 'one');
    const clock = new FakeClock();
    const policy = new ReloadingPolicy({ read: () => readPolicyFolder(folder), clock, everyMs: 2_000 });
    await policy.start();
    expect(policy.decide(INPUT)).toEqual({ deny: ['one'], rules: ['tools.rego:2'] });
    await version('v2', 'two');
    await eventually('the new policy', () => {
      clock.advance(2_000);
      return policy.decide(INPUT).deny[0] === 'two';
    });
    policy.stop();
    await rm(folder, { recursive: true });
    await expect(readPolicyFolder(folder)).rejects.toThrow();
  });
});
