import type { ComponentType } from 'react';
import type { Me } from '@toolfleet/client';
import { BreakersView } from './views/breakers.js';
import { BudgetsView } from './views/budgets.js';
import { CallsView } from './views/calls.js';
import { KeysView } from './views/keys.js';
import { QuarantineView, WaitingApprovals } from './views/quarantine.js';
import { QueuesView } from './views/queues.js';
import { ToolsView } from './views/tools.js';

/** One view of the console. */
export interface View {
  /** In the address. */
  name: string;
  title: string;
  Component: ComponentType<{ item: string | undefined }>;
  /** Beside its title in the navigation: what waits there. */
  Mark?: ComponentType;
  /** The role it takes; absent for everyone. */
  needs?: 'admin' | 'operator';
  why?: string;
}

/** Every view, in the order of the navigation. The gateway checks every request again; this only decides what is offered. */
export const VIEWS: readonly View[] = [
  { name: 'tools', title: 'Tools', Component: ToolsView },
  { name: 'calls', title: 'Calls', Component: CallsView },
  {
    name: 'queues',
    title: 'Queues and workers',
    Component: QueuesView,
    needs: 'operator',
    why: 'It shows the work of every tenant.',
  },
  { name: 'breakers', title: 'Breakers and limits', Component: BreakersView },
  { name: 'budgets', title: 'Budgets and cost', Component: BudgetsView },
  {
    name: 'quarantine',
    title: 'Approvals',
    Component: QuarantineView,
    Mark: WaitingApprovals,
    needs: 'admin',
    why: 'Approving a changed tool lets everyone in the tenant call it.',
  },
  {
    name: 'keys',
    title: 'API keys',
    Component: KeysView,
    needs: 'admin',
    why: 'It makes and revokes the keys of the tenant.',
  },
];

/** Whether the caller may open a view. */
export const mayOpen = ({ needs }: View, me: Me): boolean => needs === undefined || me[needs];
