import { type ComponentType, createContext } from 'react'
import type { Past } from '../../api/resource'

export interface RowHistoryProps {
  kind: string
  id: string
  past: Past<unknown>
}

/** What shows the history of a row under its form: the console lends it. */
export const RowHistoryContext = createContext<ComponentType<RowHistoryProps> | null>(null)
