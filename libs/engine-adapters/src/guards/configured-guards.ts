import type { Guard } from '@toolfleet/engine';
import { toolAllowed } from '@toolfleet/engine/access';
import type { GuardSettings } from '@toolfleet/fleet-file';
import { FatalStartupError, type LifecycleComponent, type ServiceHost } from '@toolfleet/service';
import { contentGuard } from './content-guard.js';
import { httpGuard } from './http-guard.js';
import { moduleGuard } from './module-guard.js';

/** Time of a guard that names none. */
const DEFAULT_TIMEOUT_MS = 2_000;

/**
 * The guards of the configuration file, and a component that loads the code of those that have some. A mandatory guard that cannot be
 * loaded ends the start; any other is a fault, and `on_failure` decides about the calls that it guards.
 */
export function configuredGuards(
  configured: { [name: string]: GuardSettings },
  allowedEndpoints: readonly string[],
  { clock, faults }: Pick<ServiceHost, 'clock' | 'faults'>,
): { guards: Guard[]; component: LifecycleComponent } {
  const loads: (() => Promise<void>)[] = [];
  const closes: (() => Promise<void>)[] = [];
  const guards = Object.entries(configured).map(([name, settings]): Guard => {
    const timeoutMs = settings.timeout_ms ?? DEFAULT_TIMEOUT_MS;
    const failsOpen = settings.on_failure === 'open';
    const common = { name, timeoutMs, failsOpen, watches: watcher(settings) };
    if (settings.kind === 'content') return { ...common, ...contentGuard(settings) };
    if (settings.kind === 'http') {
      const { close, ...places } = httpGuard(name, settings, { clock, allowedEndpoints, timeoutMs });
      closes.push(close);
      return { ...common, ...places };
    }
    const { load, ...places } = moduleGuard(settings);
    loads.push(async () => {
      try {
        await load();
      } catch (error) {
        const message = `guard ${name} cannot be loaded: ${(error as Error).message}`;
        if (settings.mandatory) throw new FatalStartupError(message);
        faults.set(`guard ${name}`, [message]);
      }
    });
    return { ...common, ...places };
  });
  const component: LifecycleComponent = {
    name: 'guards',
    start: async () => {
      for (const load of loads) await load();
    },
    stop: async () => {
      await Promise.all(closes.map((close) => close()));
    },
  };
  return { guards, component };
}

/** A guard without tools and toolsets watches every call; one with both, the calls that either names. */
function watcher({ tools, toolsets }: GuardSettings): Guard['watches'] {
  if (!tools && !toolsets) return () => true;
  return ({ name }, toolset) =>
    (tools !== undefined && guardedNames(name).some((each) => toolAllowed(tools, each))) ||
    (toolset !== undefined && toolsets?.includes(toolset) === true);
}

/**
 * The names by which patterns watch a definition. Prompts, skills and resources of an MCP server are watched like its tools: `crm_*` has
 * `prompt:crm_review` and `resource:crm`.
 */
function guardedNames(name: string): string[] {
  const [, kind, own] = /^(prompt|skill|resource):(.*)$/s.exec(name) ?? [];
  if (own === undefined) return [name];
  return kind === 'resource' ? [name, own, `${own}_`] : [name, own];
}
