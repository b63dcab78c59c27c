import { type ComponentType, useEffect, useRef, useState } from 'react';
import type { Me } from '@toolfleet/client';
import { BreakersView } from './views/breakers.js';
import { BudgetsView } from './views/budgets.js';
import { CallsView } from './views/calls.js';
import { ConnectionsView } from './views/connections.js';
import { FaultsMark, FaultsView } from './views/faults.js';
import { KeysView } from './views/keys.js';
import { OverviewView } from './views/overview.js';
import { ApprovalsProvider, QuarantineView, WaitingApprovals } from './views/quarantine.js';
import { QueuesView } from './views/queues.js';
import { SourcesView } from './views/sources.js';
import { TenantsView } from './views/tenants.js';
import { ToolsView } from './views/tools.js';
import { ToolsetsView } from './views/toolsets.js';
import { WaitingCallsMark, WaitingCallsView } from './views/waiting-calls.js';
import { WebhooksView } from './views/webhooks.js';
import { useSigned } from './session.js';
import { toAddress, usePlace } from './router.js';
import { Badge, Empty, Brand } from './ui/components.js';

/** One view of the console. */
interface View {
  /** Name in the address. */
  name: string;
  title: string;
  Component: ComponentType<{ item: string | undefined; detail: string | undefined }>;
  /** Shown next to the title in the navigation, e.g. a number of pending items. */
  Mark?: ComponentType;
  /** Required right; absent: none. */
  needs?: Me['rights'][number];
  why?: string;
}

/** Every view, in the order of the navigation; the first that the key may see is the start page. Rights only decide on the offered views: the gateway authorizes every request. */
const VIEWS: readonly View[] = [
  {
    name: 'overview',
    title: 'Overview',
    Component: OverviewView,
    needs: 'all_calls',
    why: 'It sums the calls of the whole tenant.',
  },
  { name: 'tools', title: 'Tools', Component: ToolsView },
  { name: 'calls', title: 'Calls', Component: CallsView },
  { name: 'approvals', title: 'Waiting calls', Component: WaitingCallsView, Mark: WaitingCallsMark },
  {
    name: 'queues',
    title: 'Queues and workers',
    Component: QueuesView,
    needs: 'operate_fleet',
    why: 'It shows the work of every tenant.',
  },
  {
    name: 'faults',
    title: 'Faults',
    Component: FaultsView,
    Mark: FaultsMark,
    needs: 'operate_fleet',
    why: 'It shows the configuration of the whole fleet.',
  },
  { name: 'breakers', title: 'Breakers and limits', Component: BreakersView },
  { name: 'budgets', title: 'Budgets and cost', Component: BudgetsView },
  {
    name: 'tenants',
    title: 'Tenants',
    Component: TenantsView,
    needs: 'operate_fleet',
    why: 'It shows what every tenant spends.',
  },
  {
    name: 'sources',
    title: 'Sources',
    Component: SourcesView,
    needs: 'manage_sources',
    why: 'It changes which tools the tenant has.',
  },
  {
    name: 'toolsets',
    title: 'Toolsets',
    Component: ToolsetsView,
    needs: 'manage_toolsets',
    why: 'It changes which tools agents of the tenant see.',
  },
  {
    name: 'quarantine',
    title: 'Approvals',
    Component: QuarantineView,
    Mark: WaitingApprovals,
    needs: 'approve_tools',
    why: 'Approving a changed tool lets everyone in the tenant call it.',
  },
  { name: 'connections', title: 'Connections', Component: ConnectionsView },
  {
    name: 'keys',
    title: 'Users and keys',
    Component: KeysView,
  },
  {
    name: 'webhooks',
    title: 'Webhooks',
    Component: WebhooksView,
    needs: 'manage_webhooks',
    why: 'It sends what happens in the tenant to other addresses.',
  },
];

const mayOpen = ({ needs }: View, me: Me): boolean => needs === undefined || me.rights.includes(needs);

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

  const frame = (
    <div className="frame">
      <a
        className="skip"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      >
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
        <nav className="nav" aria-label="Views">
          <ul>
            {VIEWS.filter((one) => mayOpen(one, me)).map((one) => (
              <li key={one.name}>
                <a href={toAddress(one.name)} aria-current={one.name === name ? 'page' : undefined}>
                  {one.title}
                  {one.Mark && <one.Mark />}
                </a>
              </li>
            ))}
          </ul>
        </nav>
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
      </div>
      <main className="main" id="main" ref={main} tabIndex={-1}>
        {!view ? (
          <Empty>There is no such view.</Empty>
        ) : !mayOpen(view, me) ? (
          <div className="notice warn">
            <strong>
              {view.title} needs the right {view.needs}
            </strong>
            <span>
              {view.why} You have {me.roles.length > 0 ? `the roles ${me.roles.join(', ')}` : 'no role'}.
            </span>
          </div>
        ) : (
          <view.Component key={name} item={item} detail={detail} />
        )}
      </main>
    </div>
  );
  return me.rights.includes('approve_tools') ? <ApprovalsProvider>{frame}</ApprovalsProvider> : frame;
}
