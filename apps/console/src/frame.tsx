import { useEffect, useRef, useState, type ComponentType, type MouseEvent } from 'react';
import type { Me } from '@toolfleet/client';
import { BreakersView } from './views/breakers.js';
import { BudgetsView } from './views/budgets.js';
import { CallsView } from './views/calls.js';
import { ConnectionsView } from './views/connections.js';
import { FaultsMark, FaultsView } from './views/faults.js';
import { KeysView } from './views/keys.js';
import { OverviewView } from './views/overview.js';
import { QuarantineView, WaitingApprovals } from './views/quarantine.js';
import { QueuesView } from './views/queues.js';
import { SourcesView } from './views/sources.js';
import { TenantsView } from './views/tenants.js';
import { ToolsView } from './views/tools.js';
import { ToolsetsView } from './views/toolsets.js';
import { WaitingCallsMark, WaitingCallsView } from './views/waiting-calls.js';
import { WebhooksView } from './views/webhooks.js';
import { useSigned } from './session.js';
import { toAddress, usePlace } from './router.js';
import { Badge, Brand, Empty, Notice } from './ui/components.js';

/** One view of the console: its name in the address, its title, and how it is shown. */
interface ConsoleView {
  name: string;
  title: string;
  Component: ComponentType<{ item: string | undefined; detail: string | undefined }>;
  /** Shown next to the title in the navigation, e.g. a number of pending items. */
  Mark?: ComponentType;
  /** Required right, and the reason for it; absent: none. */
  needs?: readonly [right: Me['rights'][number], why: string];
}

const WHOLE_TENANT = ['all_calls', 'It sums the calls of the whole tenant.'] as const;
const EVERY_TENANT = ['operate_fleet', 'It shows the work of every tenant.'] as const;
const WHOLE_FLEET = ['operate_fleet', 'It shows the configuration of the whole fleet.'] as const;
const SPENDING = ['operate_fleet', 'It shows what every tenant spends.'] as const;
const SOURCES = ['manage_sources', 'It changes which tools the tenant has.'] as const;
const TOOLSETS = ['manage_toolsets', 'It changes which tools agents of the tenant see.'] as const;
const APPROVING = ['approve_tools', 'Approving a changed tool lets everyone in the tenant call it.'] as const;
const SENDING = ['manage_webhooks', 'It sends what happens in the tenant to other addresses.'] as const;

/** Every view, in the order of the navigation; the first that the key may see is the start page. Rights only decide on the offered views: the gateway authorizes every request. */
const VIEWS: readonly ConsoleView[] = [
  { name: 'overview', title: 'Overview', Component: OverviewView, needs: WHOLE_TENANT },
  { name: 'tools', title: 'Tools', Component: ToolsView },
  { name: 'calls', title: 'Calls', Component: CallsView },
  { name: 'approvals', title: 'Waiting calls', Component: WaitingCallsView, Mark: WaitingCallsMark },
  { name: 'queues', title: 'Queues and workers', Component: QueuesView, needs: EVERY_TENANT },
  { name: 'faults', title: 'Faults', Component: FaultsView, Mark: FaultsMark, needs: WHOLE_FLEET },
  { name: 'breakers', title: 'Breakers and limits', Component: BreakersView },
  { name: 'budgets', title: 'Budgets and cost', Component: BudgetsView },
  { name: 'tenants', title: 'Tenants', Component: TenantsView, needs: SPENDING },
  { name: 'sources', title: 'Sources', Component: SourcesView, needs: SOURCES },
  { name: 'toolsets', title: 'Toolsets', Component: ToolsetsView, needs: TOOLSETS },
  { name: 'quarantine', title: 'Changed tools', Component: QuarantineView, Mark: WaitingApprovals, needs: APPROVING },
  { name: 'connections', title: 'Connections', Component: ConnectionsView },
  { name: 'keys', title: 'Users and keys', Component: KeysView },
  { name: 'webhooks', title: 'Webhooks', Component: WebhooksView, needs: SENDING },
];

const mayOpen = ({ needs }: ConsoleView, me: Me): boolean => needs === undefined || me.rights.includes(needs[0]);

/** Navigation and the current view. Views that the key may not see are not listed, and explain why when opened by address. */
export function Frame({ onSignOut }: { onSignOut: () => void }) {
  const { me } = useSigned();
  const { view: opened, item, detail } = usePlace();
  const name = opened || VIEWS.find((one) => mayOpen(one, me))!.name;
  const [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const view = VIEWS.find((one) => one.name === name);
  const place = `${name}/${item ?? ''}`;
  const shown = useRef(place);

  useEffect(() => {
    document.title = `${view?.title ?? 'Not found'} · toolfleet`;
    if (shown.current === place) return;
    shown.current = place;
    setOpen(false);
    // Moves screen readers and keyboard focus to the top, as a new page would.
    main.current?.focus();
    scrollTo(0, 0);
  }, [place, view]);
  const skip = (event: MouseEvent) => {
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <div className="frame">
      <a className="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <div className="topbar">
        <Brand />
        <button aria-expanded={open} aria-controls="side" onClick={() => setOpen(!open)}>
          Menu
        </button>
      </div>
      <div id="side" className={open ? 'side open' : 'side'}>
        <Brand />
        <Navigation current={name} />
        <Caller onSignOut={onSignOut} />
      </div>
      <main className="main" id="main" ref={main} tabIndex={-1}>
        <CurrentView view={view} item={item} detail={detail} />
      </main>
    </div>
  );
}

function CurrentView(props: { view: ConsoleView | undefined; item: string | undefined; detail: string | undefined }) {
  const { view, item, detail } = props;
  const { me } = useSigned();
  if (!view) return <Empty>There is no such view.</Empty>;
  if (mayOpen(view, me)) return <view.Component key={view.name} item={item} detail={detail} />;
  const [right, why] = view.needs!;
  return (
    <Notice tone="warn" title={`${view.title} needs the right ${right}`}>
      <span>
        {why} You have {me.roles.length > 0 ? `the roles ${me.roles.join(', ')}` : 'no role'}.
      </span>
    </Notice>
  );
}

function Navigation({ current }: { current: string }) {
  const { me } = useSigned();
  return (
    <nav className="nav" aria-label="Views">
      <ul>
        {VIEWS.filter((one) => mayOpen(one, me)).map(({ name, title, Mark }) => (
          <li key={name}>
            <a href={toAddress(name)} aria-current={name === current ? 'page' : undefined}>
              {title}
              {Mark && <Mark />}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Caller({ onSignOut }: { onSignOut: () => void }) {
  const { me } = useSigned();
  return (
    <div className="who small">
      <span className="wrap">
        <strong>{me.user_id || 'no user'}</strong> of <strong>{me.tenant_id}</strong>
      </span>
      <span className="row">
        {me.roles.length === 0 && <Badge>member</Badge>}
        {me.roles.map((role) => (
          <Badge key={role} tone={role === 'admin' || role === 'operator' ? 'accent' : undefined}>
            {role}
          </Badge>
        ))}
      </span>
      <button onClick={onSignOut}>Sign out</button>
    </div>
  );
}
