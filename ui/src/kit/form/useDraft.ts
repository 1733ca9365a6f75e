import { useLocation } from '@tanstack/react-router'

/** What the page before has filled in for a new row. */
export const useDraft = <T extends object>() => (useLocation().state as { draft?: T }).draft
