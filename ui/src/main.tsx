import './theme/base.css'
import '@mantine/core/styles.layer.css'
import './theme/fonts.css'
import './theme/tokens.css'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { reloadOnChunkFailure } from './chunk-reload'
import i18n from './i18n/i18n'
import { ThemeProvider } from './theme/ThemeProvider'

reloadOnChunkFailure()

const root = document.getElementById('root')!

// The door (login, password reset, setup) and the console are two programs: the door stays small, and switching is a
// page load, which leaves nothing of the old session in memory.
const atTheDoor = ['/login', '/reset-password', '/setup'].includes(location.pathname)
const program = atTheDoor ? import('./door/Door') : import('./app/App')

program.then(
  ({ default: Program }) =>
    createRoot(root).render(
      <StrictMode>
        <ThemeProvider>
          <Program />
        </ThemeProvider>
      </StrictMode>,
    ),
  () => root.append(i18n.t('broken')),
)
